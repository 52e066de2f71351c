// Package tensorfile reads and writes safetensors files. A file is mapped, not read: a tensor's bytes
// are the mapping, its pages come in when they are touched and can be given back with Release. What a
// header claims is checked before anything is believed: a damaged file is an input error that names
// the file and the tensor, never a panic and never a large allocation. A file that somebody shortens
// while it is mapped is beyond protection: the kernel stops the process.
//
// The package knows names, shapes and encodings. It does not know what a model or an adapter is made of.
package tensorfile
