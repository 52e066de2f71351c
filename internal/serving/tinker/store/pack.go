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

// Complete is the name of the empty file that ends a tar: clients look for it before they hand on what they unpacked.
const Complete = "checkpoint_complete"

// PackedSize is the length of what Pack writes; -1 if it is not known, as a large file has a longer header.
func PackedSize(files []*os.File) int64 {
	const block, largest = 512, 8<<30 - 1
	all := int64(3 * block) // the header of the last file, and the end
	for _, f := range files {
		n := lengthOf(f)
		if n > largest {
			return -1
		}
		all += block + (n+block-1)/block*block
	}
	return all
}

// Pack writes files as a tar, by their base names, and an empty one behind them.
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
	if err := t.WriteHeader(&tar.Header{Name: Complete, Mode: 0o644, ModTime: at.Truncate(time.Second)}); err != nil {
		return err
	}
	return t.Close()
}
