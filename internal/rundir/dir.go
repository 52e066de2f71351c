package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Dir is the directory of a run, claimed by this process.
type Dir struct {
	Path string
	lock *os.File // the directory itself; nil while there is none
	logs map[string]*os.File

	reserved bool // an empty directory goes away again
}

// Claim takes a directory for this process, so that no other one writes into it, and sees that it can be written
// to. Nothing is written yet, and the directory need not exist.
func Claim(path string) (*Dir, error) {
	d := &Dir{Path: path, logs: map[string]*os.File{}}
	if err := d.claim(); err != nil && !os.IsNotExist(err) {
		return nil, elsewhere(err)
	}
	if err := d.probe(); err != nil {
		return nil, errors.Join(elsewhere(err), d.Close())
	}
	return d, nil
}

// elsewhere says of a directory that cannot be used that another one may.
func elsewhere(err error) error { return badinput.Errorf("run_dir: %w; choose another one", err) }

// claim locks the directory until Close, or until the process ends in whatever way.
func (d *Dir) claim() error {
	if d.lock != nil {
		return nil
	}
	f, err := os.Open(d.Path)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return errors.Join(fmt.Errorf("another process trains in %s", d.Path), f.Close())
	} // a file system that knows no locks can do without
	d.lock = f
	return nil
}

// Begin makes the directory where there is none, removes what a killed writer left half done, and opens the
// logs, each cut to the length that it had at the checkpoint that the run goes on from; one without a length is
// begun anew.
func (d *Dir) Begin(logs []string, lengths map[string]int64) error {
	if err := os.MkdirAll(d.Path, 0o755); err != nil {
		return elsewhere(err)
	}
	if err := d.claim(); err != nil {
		return elsewhere(err)
	}
	if err := errors.Join(atomicfile.Sweep(d.Path), d.sweep()); err != nil {
		return err
	}
	for _, name := range logs {
		f, err := os.OpenFile(d.File(name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return elsewhere(err)
		}
		d.logs[name] = f
		if err := cut(f, lengths[name]); err != nil {
			return err
		}
	}
	return nil
}

// cut shortens a log to a length that it had.
func cut(f *os.File, length int64) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() < length {
		return badinput.Errorf("%s has %d bytes and had %d when the checkpoint was made: somebody shortened it; "+
			"type run_dir=DIR init_from=%s to go on in another directory", f.Name(), info.Size(), length, filepath.Dir(f.Name()))
	}
	return f.Truncate(length)
}

// File is where a file of the directory is.
func (d *Dir) File(name string) string { return filepath.Join(d.Path, name) }

// Append adds a line of JSON to a log.
func (d *Dir) Append(log string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("%s: %w", log, err)
	}
	_, err = d.logs[log].Write(append(text, '\n'))
	return err
}

// Sync makes the logs survive a power cut as they are now.
func (d *Dir) Sync() error {
	for name, f := range d.logs {
		if err := f.Sync(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return atomicfile.SyncDir(d.Path)
}

// Lengths are those of the logs now.
func (d *Dir) Lengths() (map[string]int64, error) {
	n := map[string]int64{}
	for name, f := range d.logs {
		info, err := f.Stat()
		if err != nil {
			return nil, err
		}
		n[name] = info.Size()
	}
	return n, nil
}

// WriteJSON replaces a file of the directory by a value as indented JSON.
func (d *Dir) WriteJSON(name string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(d.File(name), append(text, '\n'))
}

// ReadJSON reads a file that may be missing: of a run that was killed early, or made by hand.
func ReadJSON(path string, v any) error {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return badinput.Errorf("%s: %w; remove it to go on without", path, err)
	}
	return nil
}

// Close closes the logs and gives the directory free.
func (d *Dir) Close() error {
	var errs []error
	for _, f := range d.logs {
		errs = append(errs, f.Close())
	}
	clear(d.logs)
	if d.reserved {
		_ = os.Remove(d.Path) // which fails where a run was begun, as it should
	}
	if d.lock != nil {
		errs = append(errs, d.lock.Close())
		d.lock = nil
	}
	return errors.Join(errs...)
}
