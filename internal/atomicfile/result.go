package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/seed-7879b91d/grpo/internal/disk"
)

// Result is Write for a file that somebody asked for by its path. Who was killed has left a temporary one beside it, perhaps as large:
// those that nobody writes to are removed by the next that writes the same. Write does not look for them, as a folder may have many files.
// Of a link it is the file that the link leads to.
func Result(path string, fill func(io.Writer) error) error {
	path = Led(path)
	parent, prefix := filepath.Dir(path), "."+filepath.Base(path)+"."
	if err := sweepBeside(parent, prefix, temporary); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission) {
		return of(path, "", "write", err)
	}
	for {
		f, err := disk.CreateTemp(parent, prefix+"*"+temporary)
		if err != nil {
			return of(path, "", "write", err)
		}
		lock, err := own(f.Name())
		if lock == nil {
			f.Close()
		}
		if err != nil {
			return of(path, "", "write", errors.Join(err, disk.Remove(f.Name())))
		}
		if lock != nil {
			defer lock.Close() // after the rename: who sees the temporary name until then sees that it is held
			return write(path, f, fill)
		}
	}
}

// ResultBytes is Result for a file of data.
func ResultBytes(path string, data []byte) error {
	return Result(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}
