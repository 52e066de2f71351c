package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/seed-7879b91d/grpo/internal/disk"
)

// Result is Write for a file that the user named. A killed process leaves a temporary file beside it, possibly a large one: those in no
// use are removed by the next Result for the same path. Write does not look for them, as its folders may have many files. If path is a
// link, its target is written.
func Result(path string, fill func(io.Writer) error) error {
	path = ResolveLink(path)
	parent, prefix := filepath.Dir(path), "."+filepath.Base(path)+"."
	if err := sweepBeside(parent, prefix, temporary); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission) {
		return reword(path, "", "write", err)
	}
	for {
		f, err := disk.CreateTemp(parent, prefix+"*"+temporary)
		if err != nil {
			return reword(path, "", "write", err)
		}
		lock, err := lockNew(f.Name())
		if lock == nil {
			f.Close()
		}
		if err != nil {
			return reword(path, "", "write", errors.Join(err, disk.Remove(f.Name())))
		}
		if lock != nil {
			defer lock.Close() // after the rename: until then the temporary file must be seen to be in use
			return write(path, f, fill)
		}
	}
}

// ResultBytes is Result with the content.
func ResultBytes(path string, data []byte) error {
	return Result(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}
