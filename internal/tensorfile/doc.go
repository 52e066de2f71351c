// Package tensorfile reads and writes safetensors files. A file is memory-mapped: a tensor's bytes are the mapping, whose
// pages are loaded on access and can be dropped again with Release. Headers are checked before they are used: a damaged
// file is an input error that names the file and the tensor, never a panic or a large allocation. Only truncating a file
// while it is mapped cannot be handled: the kernel kills the process.
//
// The package knows names, shapes and encodings, but not what a model or an adapter consists of.
package tensorfile
