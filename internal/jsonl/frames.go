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

// PackedSuffix is the suffix of files whose lines are in consecutive zstd frames. Each frame can be decoded by itself, so a
// file that is cut between two frames is valid.
const PackedSuffix = ".zst"

// window is the compression window: several completions.
const window = 1 << 20

// Frame compresses lines into a frame, which it writes as it goes. Close ends the frame, but does not close the writer.
type Frame struct{ enc *zstd.Encoder }

// NewFrame starts a frame. Each has its own encoder, so that equal lines give equal bytes.
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
	if !strings.HasSuffix(path, PackedSuffix) {
		return f, nil
	}
	in, err := unpack(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return frameReader{in, f}, nil
}

func unpack(r io.Reader) (*zstd.Decoder, error) {
	return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
}

// frameReader decodes frames. If the last one was only partly written, its complete part ends the file.
type frameReader struct {
	*zstd.Decoder
	f *os.File
}

func (p frameReader) Read(to []byte) (int, error) {
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

func (p frameReader) Close() error {
	p.Decoder.Close()
	return p.f.Close()
}

// frameMagic is the magic number of a frame.
var frameMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

// LastFrame calls fn with the lines of the last complete frame of a file, if there is one, without reading those before
// it.
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

// lastFrame finds the last complete frame at the end of a file. The magic number may also occur inside a frame, and the
// last frame may be incomplete: only a complete frame has a correct checksum.
func lastFrame(text []byte) []byte {
	ends := []int{len(text)}
	for n := range len(frameMagic) - 1 { // a partial magic number may follow the last frame
		ends = append(ends, max(0, len(text)-n-1))
	}
	for from := len(text); ; {
		from = bytes.LastIndex(text[:from], frameMagic)
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
