package jsonl

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// ErrUnfinished is the error of an incomplete frame: it is being written, or its writer was killed.
var ErrUnfinished = errors.New("the frame has no end")

// FrameEnd is the end of the frame that starts at an offset of a packed file of that size. It follows from the sizes of the
// blocks, without decoding or checking them.
func FrameEnd(f io.ReaderAt, at, size int64) (int64, error) {
	if at >= size {
		return 0, ErrUnfinished
	}
	var room [zstd.HeaderMaxSize]byte
	head := room[:min(int64(len(room)), size-at)]
	if _, err := f.ReadAt(head, at); err != nil && err != io.EOF {
		return 0, err
	}
	var h zstd.Header
	if err := h.Decode(head); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) && bytes.HasPrefix(frameMagic, head[:min(len(head), len(frameMagic))]) {
			return 0, ErrUnfinished
		}
		return 0, fmt.Errorf("no frame begins at byte %d: %w", at, err)
	}
	if h.Skippable {
		return within(at+int64(h.HeaderSize)+int64(h.SkippableSize), size)
	}
	end := at + int64(h.HeaderSize)
	for last := false; !last; {
		var b [3]byte
		if end+int64(len(b)) > size {
			return 0, ErrUnfinished
		}
		if _, err := f.ReadAt(b[:], end); err != nil && err != io.EOF {
			return 0, err
		}
		bits := int64(b[0]) | int64(b[1])<<8 | int64(b[2])<<16
		n := bits >> 3
		switch bits >> 1 & 3 {
		case 1: // a run of one byte
			n = 1
		case 3:
			return 0, fmt.Errorf("damaged: the frame of byte %d has a block of no kind at byte %d", at, end)
		}
		end += int64(len(b)) + n
		last = bits&1 == 1
	}
	if h.HasCheckSum {
		end += 4
	}
	return within(end, size)
}

func within(end, size int64) (int64, error) {
	if end > size {
		return 0, ErrUnfinished
	}
	return end, nil
}

// NextFrame is the next offset from at on where a frame may start; size if there is none.
func NextFrame(f io.ReaderAt, at, size int64) (int64, error) {
	buf := make([]byte, 64<<10)
	for at < size {
		n, err := f.ReadAt(buf[:min(int64(len(buf)), size-at)], at)
		if i := bytes.Index(buf[:n], frameMagic); i >= 0 {
			return at + int64(i), nil
		}
		if err != nil && err != io.EOF {
			return 0, err
		}
		if n < len(frameMagic) {
			break
		}
		at += int64(n - len(frameMagic) + 1)
	}
	return size, nil
}

// Unpacker decodes frames one after the other, reusing its memory.
type Unpacker struct{ in *zstd.Decoder }

// NewUnpacker makes an Unpacker; Reset sets its input.
func NewUnpacker() (*Unpacker, error) {
	in, err := unpack(nil)
	return &Unpacker{in}, err
}

// Reset starts with another frame.
func (u *Unpacker) Reset(r io.Reader) error { return u.in.Reset(r) }

// Read reads decoded bytes.
func (u *Unpacker) Read(to []byte) (int, error) { return u.in.Read(to) }

// Close frees the decoder.
func (u *Unpacker) Close() { u.in.Close() }
