package bundle

import (
	"archive/tar"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// The names in an archive, all of them below one folder.
const (
	folder    = "grpo-run/"
	Sums      = "SHA256SUMS"
	Signature = "SHA256SUMS.sig"
)

// File is a file to be packed.
type File struct {
	Name string // relative to the folder of the archive, with slashes
	Open func() (io.ReadCloser, error)
}

// FromBytes is a file with this content.
func FromBytes(name string, content []byte) File {
	return File{name, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }}
}

// Limits on the content of an archive. Names fit the oldest form of tar.
const (
	mostFiles = 10_000
	mostName  = 90
	mostSums  = mostFiles * (64 + 2 + mostName + 1)
	mostSize  = 1 << 33 // of one file: the limit of that form of tar
)

// modified is the time of every file: the earliest that all unpackers support.
var modified = time.Unix(315532800, 0).UTC()

// Write writes an archive atomically, and signs it if there is a key.
func Write(path string, files []File, key ed25519.PrivateKey) error {
	files = slices.SortedFunc(slices.Values(files), func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	sums, sizes, err := sumsOf(files)
	if err != nil {
		return err
	}
	return atomicfile.Result(path, func(w io.Writer) error {
		total := sha256.New()
		z, err := zstd.NewWriter(io.MultiWriter(w, total), zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault),
			zstd.WithWindowSize(window), zstd.WithEncoderCRC(true))
		if err != nil {
			return err
		}
		t := tar.NewWriter(z)
		if err := writeEntry(t, Sums, sums.text(), int64(len(sums.text()))); err != nil {
			return err
		}
		if key != nil {
			signed := sign(sums.text(), key)
			if err := writeEntry(t, Signature, signed, int64(len(signed))); err != nil {
				return err
			}
		}
		for i, f := range files {
			if err := pack(t, f, sums[i], sizes[i]); err != nil {
				return err
			}
		}
		if err := t.Close(); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		_, err = w.Write(seal(total))
		return err
	})
}

// sum is a line of SHA256SUMS.
type sum struct {
	name string
	hash [sha256.Size]byte
}

type sumList []sum

func (l sumList) text() []byte {
	var b []byte
	for _, s := range l {
		b = fmt.Appendf(b, "%x  %s\n", s.hash, s.name)
	}
	return b
}

// sumsOf reads all files to compute their sums.
func sumsOf(files []File) (sums sumList, sizes []int64, err error) {
	if len(files) > mostFiles {
		return nil, nil, badinput.Errorf("%d files are too many for a package, expected at most %d", len(files), mostFiles)
	}
	for i, f := range files {
		if err := checkName(f.Name); err != nil {
			return nil, nil, badinput.Errorf("%w; call the file something else, or move it out of the run", err)
		}
		if i > 0 && files[i-1].Name == f.Name {
			return nil, nil, fmt.Errorf("bundle: %s is there twice", f.Name)
		}
		s := sum{name: f.Name}
		h := sha256.New()
		n, err := copyContent(f, h)
		if err != nil {
			return nil, nil, err
		}
		if n > mostSize-1 {
			return nil, nil, badinput.Errorf("%s: it has %d bytes, a package takes files of less than 8 GiB", f.Name, n)
		}
		h.Sum(s.hash[:0])
		sums, sizes = append(sums, s), append(sizes, n)
	}
	return sums, sizes, nil
}

// copyContent copies a file.
func copyContent(f File, to io.Writer) (int64, error) {
	r, err := f.Open()
	if err != nil {
		return 0, badinput.Errorf("%w", err)
	}
	defer r.Close()
	return io.Copy(to, r)
}

// pack adds a file, which must be unchanged since its sum was computed.
func pack(t *tar.Writer, f File, want sum, size int64) error {
	changed := badinput.Errorf("%s changed while it was packed; type the same command again when its run has ended", f.Name)
	if err := t.WriteHeader(header(f.Name, size)); err != nil {
		return err
	}
	h := sha256.New()
	n, err := copyContent(f, &limitedWriter{io.MultiWriter(t, h), size, changed})
	if err == nil && (n != size || [sha256.Size]byte(h.Sum(nil)) != want.hash) {
		err = changed
	}
	return err
}

// limitedWriter writes at most that many bytes.
type limitedWriter struct {
	io.Writer
	left int64
	err  error
}

func (w *limitedWriter) Write(b []byte) (int, error) {
	if w.left -= int64(len(b)); w.left < 0 {
		return 0, w.err
	}
	return w.Writer.Write(b)
}

func writeEntry(t *tar.Writer, name string, content []byte, size int64) error {
	err := t.WriteHeader(header(name, size))
	if err == nil {
		_, err = t.Write(content)
	}
	return err
}

// header is the tar header of a file.
func header(name string, size int64) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: folder + name, Size: size, Mode: 0o644, ModTime: modified, Format: tar.FormatUSTAR}
}

// The frame at the end of an archive: the magic number of a skippable frame, its length, and the hash.
const (
	sealMark = 0x184D2A5B
	sealSize = 4 + 4 + sha256.Size
)

func seal(total hash.Hash) []byte {
	b := binary.LittleEndian.AppendUint32(nil, sealMark)
	b = binary.LittleEndian.AppendUint32(b, sha256.Size)
	return total.Sum(b)
}

// checkName refuses names that are not plain relative paths on every system.
func checkName(name string) error {
	bad := len(name) > mostName || name == Sums || name == Signature
	for part := range strings.SplitSeq(name, "/") {
		bad = bad || part == "" || part == "." || part == ".." || strings.HasPrefix(part, " ") || strings.TrimRight(part, " .") != part
	}
	for _, r := range name {
		bad = bad || r <= ' ' && r != ' ' || r > '~' || strings.ContainsRune(`\:*?"<>|`, r)
	}
	if bad {
		return badinput.Errorf("%.100q is no valid file name for a package", name)
	}
	return nil
}

// parseSums parses SHA256SUMS.
func parseSums(text []byte) (list sumList, err error) {
	for line := range strings.Lines(string(text)) {
		s := sum{}
		digits, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		raw, err := hex.DecodeString(digits)
		if !ok || err != nil || len(raw) != sha256.Size {
			return nil, badinput.Errorf("%s: line %d is no checksum and name", Sums, len(list)+1)
		}
		if err := checkName(name); err != nil {
			return nil, badinput.Errorf("%s: %w", Sums, err)
		}
		if n := len(list); n > 0 && list[n-1].name >= name {
			return nil, badinput.Errorf("%s: %s is there twice, or out of order", Sums, name)
		}
		s.name, s.hash = name, [sha256.Size]byte(raw)
		list = append(list, s)
	}
	if !bytes.Equal(list.text(), text) {
		return nil, badinput.Errorf("%s is not in its canonical form", Sums)
	}
	return list, nil
}
