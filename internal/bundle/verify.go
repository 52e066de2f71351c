package bundle

import (
	"archive/tar"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Content describes an archive.
type Content struct {
	Files  []string
	Bytes  int64             // of the unpacked files
	Signer ed25519.PublicKey // nil: not signed
}

// window is the compression window, and thereby the memory of a decoder.
const window = 1 << 20

// A package may be larger unpacked than packed by this factor; more must be a decompression bomb.
const (
	mostRatio = 500
	freeBytes = 64 << 20 // before the factor counts
)

// Verify verifies an archive. Its error names the first file that is wrong.
func Verify(path string) (*Content, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, badinput.Errorf("%w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, badinput.Errorf("%s is no file; expected a package written by grpo package", path)
	}
	c, err := verify(f, info.Size())
	if err != nil {
		return nil, badinput.Errorf("%s: %w; do not use it", path, err)
	}
	return c, nil
}

func verify(f io.ReaderAt, size int64) (*Content, error) {
	if size < sealSize {
		return nil, badinput.Errorf("it has %d bytes: it is no package, or it is truncated", size)
	}
	sealed := checkSeal(f, size)
	// Verify the content even if the seal is wrong, as its error is more specific.
	c, err := verifyContent(io.NewSectionReader(f, 0, size-sealSize))
	if err == nil {
		err = sealed
	}
	return c, err
}

// checkSeal compares the hash at the end.
func checkSeal(f io.ReaderAt, size int64) error {
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, size-sealSize)); err != nil {
		return err
	}
	end := make([]byte, sealSize)
	if _, err := f.ReadAt(end, size-sealSize); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if binary.LittleEndian.Uint32(end) != sealMark {
		return badinput.Errorf("its end is not that of a package: it is truncated, or something was added")
	}
	if !bytes.Equal(end, seal(h)) {
		return badinput.Errorf("its checksum is wrong: it was damaged or changed")
	}
	return nil
}

// verifyContent verifies every file of the archive.
func verifyContent(packed io.Reader) (*Content, error) {
	in := &counting{Reader: packed}
	z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(window),
		zstd.WithDecoderMaxMemory(64<<20))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	plain := &ratioLimit{r: z, packed: in}
	v := &verifier{t: tar.NewReader(plain), c: &Content{}}
	if err := v.list(); err != nil {
		return nil, err
	}
	for _, want := range v.sums {
		if err := v.file(want); err != nil {
			return nil, err
		}
	}
	if v.next != nil || v.peek() != nil {
		return nil, badinput.Errorf("%.100q is in it, but not in %s: it was added, or is there twice", v.next.Name, Sums)
	}
	if v.err != nil && !errors.Is(v.err, io.EOF) {
		return nil, badinput.Errorf("after the last file: %w", v.err)
	}
	if n, err := plain.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		return nil, badinput.Errorf("there is something after the last file")
	}
	return v.c, nil
}

// counting counts what is read.
type counting struct {
	io.Reader
	n int64
}

func (c *counting) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n += int64(n)
	return n, err
}

// ratioLimit fails if much more is unpacked than was packed.
type ratioLimit struct {
	r      io.Reader
	packed *counting
	n      int64
}

func (b *ratioLimit) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.n += int64(n); b.n > freeBytes && b.n/mostRatio > b.packed.n {
		return 0, badinput.Errorf("it unpacks to more than %d times its size, which no package does", mostRatio)
	}
	return n, err
}

// verifier reads the files of an archive.
type verifier struct {
	t    *tar.Reader
	next *tar.Header // the header that peek read, if it was not used yet
	err  error
	sums sumList
	c    *Content
}

// peek returns the next header without using it; nil at the end.
func (v *verifier) peek() *tar.Header {
	if v.next == nil && v.err == nil {
		if v.next, v.err = v.t.Next(); v.err != nil {
			v.next = nil
		}
	}
	return v.next
}

// list reads the sums, and the signature.
func (v *verifier) list() (err error) {
	text, err := v.small(Sums, mostSums)
	if err != nil {
		return err
	}
	if v.sums, err = parseSums(text); err != nil {
		return err
	}
	if h := v.peek(); h == nil || h.Name != folder+Signature {
		return nil
	}
	signed, err := v.small(Signature, signatureSize)
	if err == nil {
		v.c.Signer, err = signer(text, signed)
	}
	return err
}

// small reads one of these files into memory.
func (v *verifier) small(name string, most int64) ([]byte, error) {
	h, err := v.expect(name)
	if err != nil {
		return nil, err
	}
	if h.Size > most {
		return nil, badinput.Errorf("%s has %d bytes, expected at most %d", name, h.Size, most)
	}
	text, err := io.ReadAll(v.t)
	if err != nil {
		return nil, badinput.Errorf("%s: %w", name, err)
	}
	return text, nil
}

// file reads a file, and compares it with its sum.
func (v *verifier) file(want sum) error {
	h, err := v.expect(want.name)
	if err != nil {
		return err
	}
	got := sha256.New()
	n, err := io.Copy(got, v.t)
	if err != nil {
		return badinput.Errorf("%s: %w", want.name, err)
	}
	if n != h.Size || [sha256.Size]byte(got.Sum(nil)) != want.hash {
		return badinput.Errorf("%s was damaged or changed: its checksum is wrong", want.name)
	}
	v.c.Files, v.c.Bytes = append(v.c.Files, want.name), v.c.Bytes+n
	return nil
}

// expect reads the next header, which must be that of a file of this name, in the form that Write uses.
func (v *verifier) expect(name string) (*tar.Header, error) {
	h := v.peek()
	v.next = nil
	switch {
	case h == nil && errors.Is(v.err, io.EOF):
		return nil, badinput.Errorf("%s is missing", name)
	case h == nil:
		return nil, badinput.Errorf("cannot read %s: %w", name, v.err)
	case h.Typeflag != tar.TypeReg || h.Linkname != "":
		return nil, badinput.Errorf("%.100q is no ordinary file", h.Name)
	case h.Name != folder+name && v.listed(h.Name):
		return nil, badinput.Errorf("%s is missing, or %.100q is there twice", name, strings.TrimPrefix(h.Name, folder))
	case h.Name != folder+name:
		return nil, badinput.Errorf("found %.100q where %s should be: it was added, or renamed", h.Name, name)
	case h.Format != tar.FormatUSTAR || h.Mode != 0o644 || !h.ModTime.Equal(modified) || h.Uid|h.Gid != 0 || h.Uname+h.Gname != "":
		return nil, badinput.Errorf("%s: its owner, mode or time is not that of a package", name)
	}
	return h, nil
}

func (v *verifier) listed(name string) bool {
	for _, s := range v.sums {
		if folder+s.name == name {
			return true
		}
	}
	return false
}
