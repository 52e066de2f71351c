package store

import (
	"archive/tar"
	"io"
	"os"
	"path/filepath"
	"time"
)

func lengthOf(f *os.File) int64 {
	info, err := f.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

// Pack writes files as a tar, by their base names.
func Pack(w io.Writer, files []*os.File, at time.Time) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		head := &tar.Header{Name: filepath.Base(f.Name()), Mode: 0o644, Size: lengthOf(f), ModTime: at.Truncate(time.Second)}
		if err := t.WriteHeader(head); err != nil {
			return err
		}
		if _, err := io.Copy(t, f); err != nil {
			return err
		}
	}
	return t.Close()
}
