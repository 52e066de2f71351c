package sweep

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/rundir"
)

// Claim is Open for the process that drives the runs, and locks the directory until Close. It need not exist yet.
func Claim(dir string, plan *Plan) (*Journal, error) {
	lock, err := lockDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	j, err := Open(dir, plan)
	if err != nil {
		if lock != nil {
			err = errors.Join(err, lock.Close())
		}
		return nil, err
	}
	j.lock = lock
	return j, nil
}

// Close releases the directory.
func (j *Journal) Close() error {
	if j.lock == nil {
		return nil
	}
	err := j.lock.Close()
	j.lock = nil
	return err
}

// lockDir locks the directory of a sweep.
func lockDir(dir string) (*os.File, error) {
	lock, err := rundir.Lock(dir)
	if !errors.Is(err, rundir.ErrTaken) {
		if err != nil {
			err = badinput.Errorf("--dir: %w; choose another one", err)
		}
		return lock, err
	}
	who, stop := "another process", "^C"
	if process, _, _ := rundir.LockHolder(dir); process != 0 {
		who, stop = fmt.Sprintf("process %d", process), fmt.Sprintf("kill -INT %d", process)
	}
	return nil, badinput.Errorf("--dir: %s makes the runs of %s; wait until it is done, stop it with %s, or choose another --dir",
		who, dir, stop)
}

// begun creates and locks a directory that did not exist when the journal was opened, unless another process did in the meantime.
func (j *Journal) begun() (err error) {
	if j.lock != nil {
		return nil
	}
	if j.lock, err = lockDir(j.dir); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(j.dir, File)); err == nil && j.fresh {
		return badinput.Errorf("--dir: another process has begun a sweep in %s meanwhile; choose another one", j.dir)
	}
	return nil
}

// gone reports whether the directory of a run is missing or empty.
func (j *Journal) gone(name string) bool {
	entries, err := os.ReadDir(j.RunDir(name))
	return errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0
}
