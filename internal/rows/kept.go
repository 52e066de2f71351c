package rows

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
)

func isJSON(err error) bool {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	return errors.As(err, &syntax) || errors.As(err, &kind) || errors.Is(err, errNoObject)
}

// Kept is a file that follows from a record. Written again from its beginning, it stays as it is as far as it is right: what
// differs is cut off, half of a last write as well as steps that the run took back, and the rest is added. So a reader that
// has the file open sees it grow.
type Kept struct {
	f     *os.File
	at    int64
	grows bool // it has nothing behind at
}

// Keep opens a file, and makes it where there is none.
func Keep(path string) (*Kept, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	return &Kept{f: f}, err
}

// Write adds what belongs together: if it is not there as a whole, nothing of it is.
func (k *Kept) Write(text []byte) (int, error) {
	if !k.grows {
		there := make([]byte, len(text))
		n, err := k.f.ReadAt(there, k.at)
		if err != nil && err != io.EOF {
			return 0, err
		}
		if bytes.Equal(there[:n], text) {
			k.at += int64(n)
			return n, nil
		}
		if err := k.End(); err != nil {
			return 0, err
		}
	}
	n, err := k.f.WriteAt(text, k.at)
	k.at += int64(n)
	return n, err
}

// End cuts off what was not written again. What is written from then on is added.
func (k *Kept) End() error {
	if k.grows {
		return nil
	}
	k.grows = true
	return k.f.Truncate(k.at)
}

// Close closes the file.
func (k *Kept) Close() error { return k.f.Close() }
