package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/disk"
	"github.com/seed-7879b91d/grpo/internal/display"
)

// Dir is the directory of a run, claimed by this process.
type Dir struct {
	Path string
	lock *os.File // the open directory, which has the lock; nil: it does not exist
	logs map[string]*disk.File

	first string // name of the first log

	reserved bool // an empty directory is removed by Close
}

// Claim locks a run directory for this process, and checks that it is writable. It writes nothing, and the directory need
// not exist.
func Claim(path string) (*Dir, error) {
	if err := checkLinks(path); err != nil {
		return nil, err
	}
	d := &Dir{Path: path, logs: map[string]*disk.File{}}
	if err := d.claim(); err != nil && !os.IsNotExist(err) {
		return nil, WithOtherDirHint(err)
	}
	if err := d.probe(); err != nil {
		return nil, errors.Join(WithOtherDirHint(err), d.Close())
	}
	return d, nil
}

// WithOtherDirHint adds to the error of an unusable directory how to name another one.
func WithOtherDirHint(err error) error {
	if disk.IsFull(err) {
		return badinput.Errorf("run_dir: %w; make room there, or choose another one", err)
	}
	return badinput.Errorf("run_dir: %w; choose another one", err)
}

// claim locks the directory until Close, or until the process ends.
func (d *Dir) claim() error {
	if d.lock != nil {
		return nil
	}
	lock, err := Lock(d.Path)
	if errors.Is(err, ErrTaken) {
		return fmt.Errorf("another process is training in %s", d.Path)
	}
	d.lock = lock
	return err
}

// Begin makes the directory if necessary, removes what a killed process left unfinished, and opens the logs at the point
// where the run resumes. What lies beyond it, later checkpoints included, is set aside first, into the folder that Begin
// returns; "" if there was nothing.
func (d *Dir) Begin(logs []string, p Point) (aside string, err error) {
	unseen := d.lock == nil
	if err := disk.MkdirAll(d.Path); err != nil {
		return "", WithOtherDirHint(err)
	}
	if err := d.claim(); err != nil {
		return "", WithOtherDirHint(err)
	}
	if unseen && HasRun(d.Path, logs) {
		return "", WithOtherDirHint(fmt.Errorf("another process has trained in %s meanwhile", d.Path))
	}
	if err := CheckLogs(d.Path, p); err != nil {
		return "", badinput.Errorf("%w; type run_dir=DIR init_from=%s to continue in another directory", err, display.ShellQuote(d.Path))
	}
	if err := errors.Join(atomicfile.RemoveStale(d.Path), d.sweep()); err != nil {
		return "", err
	}
	if aside, err = d.setAside(logs, p); err != nil {
		return "", err
	}
	for _, name := range logs {
		if f := d.logs[name]; f != nil { // left over from a failed attempt
			f.Close()
		}
		d.first = logs[0]
		f, err := disk.Append(d.File(name))
		if err != nil {
			return "", WithOtherDirHint(err)
		}
		d.logs[name] = f
		if err := f.Truncate(p.Logs[name]); err != nil {
			return "", err
		}
	}
	return aside, nil
}

// RollBack rolls the logs back to a point while the run is open, except for the log named but, which records the rollback. What
// lies beyond the point, later checkpoints included, is set aside first, as by Begin.
func (d *Dir) RollBack(p Point, but string) (aside string, err error) {
	logs := []string{d.first}
	for name := range d.logs {
		if name != d.first && name != but {
			logs = append(logs, name)
		}
	}
	slices.Sort(logs[1:])
	if aside, err = d.setAside(logs, p); err != nil {
		return "", err
	}
	for _, name := range logs {
		if err := d.logs[name].Truncate(p.Logs[name]); err != nil {
			return "", err
		}
	}
	return aside, nil
}

// HasRun reports whether a directory has logs or checkpoints of a run.
func HasRun(dir string, logs []string) bool {
	if all, err := List(dir); err != nil || len(all) > 0 {
		return true
	}
	return slices.ContainsFunc(logs, func(name string) bool {
		info, err := os.Stat(filepath.Join(dir, name))
		return err == nil && info.Size() > 0
	})
}

// File is the path of a file of the directory.
func (d *Dir) File(name string) string { return filepath.Join(d.Path, name) }

// Append adds a line of JSON to a log. If the disk is full, no part of the line stays, so that later lines are whole.
func (d *Dir) Append(log string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("%s: %w", log, err)
	}
	f := d.logs[log]
	n, err := f.Write(append(text, '\n'))
	if err == nil || n == 0 {
		return err
	}
	size, serr := f.Size()
	if serr == nil {
		serr = f.Truncate(size - int64(n))
	}
	return errors.Join(err, serr)
}

// Log is the writer of a log, for callers that format its lines themselves.
func (d *Dir) Log(name string) io.Writer { return d.logs[name] }

// MovedError is the error of a run directory that was moved or removed during the run.
type MovedError struct {
	error
	Now string // its new path; "" if it was removed
}

func (m MovedError) Unwrap() error { return m.error }

// moved fails if the directory was moved or removed during the run, as files made by its old path would be elsewhere.
func (d *Dir) moved() error {
	if d.lock == nil {
		return nil
	}
	own, err := d.lock.Stat()
	named, nerr := os.Stat(d.Path)
	if err != nil || nerr == nil && os.SameFile(own, named) || nerr != nil && !os.IsNotExist(nerr) {
		return nil
	}
	now, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", d.lock.Fd()))
	if at, serr := os.Stat(now); err != nil || serr != nil || !os.SameFile(own, at) {
		return MovedError{badinput.Errorf("%s was moved or removed during the run", d.Path), ""}
	}
	return MovedError{badinput.Errorf("%s was moved to %s during the run", d.Path, now), now}
}

// Lengths syncs the logs and returns their lengths. A caller may record them: they survive a power cut.
func (d *Dir) Lengths() (map[string]int64, error) {
	n := map[string]int64{}
	for name, f := range d.logs {
		if f.Replaced() {
			return nil, badinput.Errorf("%s was moved, removed or replaced (as editors do) during the run", d.File(name))
		}
		if err := f.Sync(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		var err error
		if n[name], err = f.Size(); err != nil {
			return nil, err
		}
	}
	return n, disk.SyncFolder(d.Path)
}

// WriteJSON replaces a file of the directory by a value as indented JSON.
func (d *Dir) WriteJSON(name string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(d.File(name), append(text, '\n'))
}

// ReadJSON reads a file. A missing one is no error: the run may have been killed early, or its directory made by hand.
func ReadJSON(path string, v any) error {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) || errors.Is(err, syscall.ENOTDIR) { // not a directory: whoever uses it will say so
		return nil
	}
	if errors.Is(err, os.ErrPermission) {
		return badinput.Errorf("%s: may not be read by this user; choose another run_dir, or have the run given to you", path)
	}
	if errors.Is(err, syscall.ENAMETOOLONG) || errors.Is(err, syscall.ELOOP) { // about the path, not the file
		return badinput.Errorf("%w; choose another run_dir", err)
	}
	if err != nil { // cannot be read, whatever its content
		return badinput.Errorf("%w; fix that and type the same again", err)
	}
	if err := json.Unmarshal(text, v); err != nil {
		return badinput.Errorf("%s: %w; remove it to continue without it", path, err)
	}
	return nil
}

// IsDamaged reports whether an error of ReadJSON is about the content of the file.
func IsDamaged(err error) bool {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	return errors.As(err, &syntax) || errors.As(err, &kind)
}

// Close closes the logs and releases the directory.
func (d *Dir) Close() error {
	var errs []error
	for _, f := range d.logs {
		errs = append(errs, f.Close())
	}
	clear(d.logs)
	if d.reserved {
		_ = os.Remove(d.Path) // fails if the run has begun, as it is not empty then
	}
	if d.lock != nil {
		errs = append(errs, d.lock.Close())
		d.lock = nil
	}
	return errors.Join(errs...)
}

// WithContinueHint adds to an error about the record of a run how to continue without it.
func WithContinueHint(err error, dir string) error {
	if !badinput.Is(err) {
		return err
	}
	return badinput.Errorf("%w, or type run_dir=DIR init_from=%s to continue in another directory", err, display.ShellQuote(dir))
}
