package jsonl

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Packed ends the names of files whose lines are in frames of zstd, one behind the other. Each can be read without
// those before it, so a file that is cut between two frames is whole.
const Packed = ".zst"

// window is how far back a frame looks for what it can repeat: several completions.
const window = 1 << 20

// Frame packs lines into a frame, which it writes as it goes. Close ends it, but does not close what it writes to.
type Frame struct{ enc *zstd.Encoder }

// NewFrame begins a frame. The same lines give the same bytes: no encoder is used for two of them.
func NewFrame(w io.Writer) (*Frame, error) {
	enc, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window))
	return &Frame{enc}, err
}

// Append adds a line.
func (f *Frame) Append(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = f.enc.Write(append(text, '\n'))
	return err
}

// Close ends the frame.
func (f *Frame) Close() error { return f.enc.Close() }

// open opens a file of lines, packed or not.
func open(path string) (io.ReadCloser, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, badinput.Errorf("%w", err)
	}
	if !strings.HasSuffix(path, Packed) {
		return f, nil
	}
	in, err := unpack(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return packed{in, f}, nil
}

func unpack(r io.Reader) (*zstd.Decoder, error) {
	return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
}

// packed reads what is in frames. A last one that has no end is half written: what there is of it ends the file.
type packed struct {
	*zstd.Decoder
	f *os.File
}

func (p packed) Read(to []byte) (int, error) {
	n, err := p.Decoder.Read(to)
	var disk *fs.PathError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = io.EOF
	case err != nil && err != io.EOF && !errors.As(err, &disk):
		err = badinput.Errorf("damaged: %w", err)
	}
	return n, err
}

func (p packed) Close() error {
	p.Decoder.Close()
	return p.f.Close()
}

// beginning is how each frame begins.
var beginning = []byte{0x28, 0xb5, 0x2f, 0xfd}

// LastFrame calls fn with the lines of the last frame of a file that has its end, without reading those before it.
// There may be none.
func LastFrame(path string, fn func(line []byte)) error {
	f, err := os.Open(path)
	if err != nil {
		return badinput.Errorf("%w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	for size := int64(1 << 20); ; size *= 4 {
		text := make([]byte, min(size, info.Size()))
		if _, err := f.ReadAt(text, info.Size()-int64(len(text))); err != nil && err != io.EOF {
			return err
		}
		if frame := lastFrame(text); frame != nil {
			return eachLine(frame, fn)
		}
		if int64(len(text)) == info.Size() {
			return nil
		}
	}
}

// lastFrame finds the last whole frame in the end of a file. What looks like the beginning of one may be inside of
// another, and what is behind the last may be half of one: only a frame from end to end has a checksum that is right.
func lastFrame(text []byte) []byte {
	ends := []int{len(text)}
	for n := range len(beginning) - 1 { // less than a beginning is behind the last
		ends = append(ends, max(0, len(text)-n-1))
	}
	for from := len(text); ; {
		from = bytes.LastIndex(text[:from], beginning)
		if from < 0 {
			return nil
		}
		for _, end := range ends {
			if end > from && readable(text[from:end]) {
				return text[from:end]
			}
		}
		ends = append(ends, from)
	}
}

func readable(frame []byte) bool {
	in, err := unpack(bytes.NewReader(frame))
	if err != nil {
		return false
	}
	defer in.Close()
	_, err = io.Copy(io.Discard, in)
	return err == nil
}

func eachLine(frame []byte, fn func(line []byte)) error {
	in, err := unpack(bytes.NewReader(frame))
	if err != nil {
		return err
	}
	defer in.Close()
	_, _, err = lines(in, func(line []byte) error {
		fn(line)
		return nil
	})
	return err
}
