// Package bundle writes files into an archive that can be verified, and verifies it. It does not know what the files are.
//
// An archive is a tar compressed with Zstandard, for tar --zstd. Its first file, SHA256SUMS, lists all others in the format of
// sha256sum; in a signed archive, SHA256SUMS.sig follows. The archive ends with a frame that decoders skip, with the SHA-256 of all
// bytes before it: so a flipped bit is detected wherever it is, even if it does not affect the unpacked files. Equal files give
// equal bytes: they are in order, with the same time, owner and mode.
//
// Verifying unpacks nothing to disk, in bounded memory whatever the archive claims.
package bundle
