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

// DerivedFile is a file that is derived from a record. Writing it again from the beginning keeps the part that is unchanged,
// truncates at the first difference, such as a partial write or steps that were rolled back, and appends the rest. So a
// reader that has the file open sees it grow.
type DerivedFile struct {
	f     *os.File
	at    int64
	grows bool // nothing is left of the old content
}

// OpenDerived opens a file, creating it if necessary.
func OpenDerived(path string) (*DerivedFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	return &DerivedFile{f: f}, err
}

// Write adds a unit: if not all of it is in the file, none of it stays.
func (k *DerivedFile) Write(text []byte) (int, error) {
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

// End truncates the file after what was written again. From then on, writes append.
func (k *DerivedFile) End() error {
	if k.grows {
		return nil
	}
	k.grows = true
	return k.f.Truncate(k.at)
}

// Close closes the file.
func (k *DerivedFile) Close() error { return k.f.Close() }
