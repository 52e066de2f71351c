// Package bundle writes files into one archive that can be checked, and checks it. It does not know what the files are about.
//
// An archive is a tar compressed with Zstandard, which tar --zstd unpacks. Its first file, SHA256SUMS, lists every other one in the
// form of sha256sum; where somebody signed it, SHA256SUMS.sig follows. The last bytes of the archive are a frame that decoders
// pass over, with the SHA-256 of all bytes before it: a flipped bit is found wherever it is, also where it would change nothing
// of what is unpacked. The same files give the same bytes: they come in order, and have one time, one owner and one mode.
//
// Nothing is unpacked when an archive is checked, and the memory that it takes is bounded, whatever the archive claims.
package bundle
