package rundir

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/internal/disk"
)

// afterStep is the prefix of folders that have the ends of logs, without checkpoints.
const afterStep = "after_"

// Point is where a run resumes: a step, and the lengths that the logs had after it (0 for a log that is not listed).
type Point struct {
	Step  int
	Logs  map[string]int64
	Files []string // files that will be written anew: setAside copies them whole
}

// setAside keeps what the run has beyond a point, before the logs are truncated and the steps repeated: later
// checkpoints, and the ends of the logs if the first log has a whole line there. It returns the folder, "" if there is
// nothing to keep.
//
// Ends without checkpoints are kept under the name of the point. As repeated steps write the same first log, of two such
// ends where one begins with the other only the longer is kept, until the run has repeated all of it: see dropDone. An end
// that differs, as after the autopilot has gone back, gets a number behind the name.
func (d *Dir) setAside(logs []string, p Point) (string, error) {
	later, err := List(d.Path)
	if err != nil {
		return "", err
	}
	later = slices.DeleteFunc(later, func(dir string) bool { return StepOf(dir) <= p.Step })
	end, err := d.end(logs, p)
	if err != nil || len(later) == 0 && !bytes.ContainsRune(end, '\n') {
		return "", err
	}
	parent := filepath.Join(d.Path, Checkpoints, RolledBackDir)
	if err := disk.MkdirAll(parent); err != nil {
		return "", err
	}
	aside := datedPath(parent)
	if len(later) == 0 {
		var there bool
		if aside, there, err = placeOfEnd(filepath.Join(parent, afterStep+Name(p.Step)), logs[0], end); there || err != nil {
			return aside, err
		}
	}
	if err := d.keepEnds(aside, logs, p); err != nil {
		return "", fmt.Errorf("checkpoints and log lines after step %d were not moved to %s: %w; %s, then type the same again", p.Step, aside,
			relativeTo(aside+partial, err), disk.Remedy(err))
	}
	for _, dir := range later {
		if err := disk.Rename(dir, filepath.Join(aside, filepath.Base(dir))); err != nil {
			return "", err
		}
	}
	return aside, errors.Join(disk.SyncFolder(aside), disk.SyncFolder(filepath.Join(d.Path, Checkpoints)))
}

// placeOfEnd is where to keep an end of the first log, and whether it is there already. A shorter one that it begins with is removed.
func placeOfEnd(path, first string, end []byte) (aside string, there bool, err error) {
	aside = path
	for n := 2; ; n++ {
		kept, err := os.ReadFile(filepath.Join(aside, first))
		switch {
		case err == nil && bytes.HasPrefix(kept, end):
			return aside, true, nil
		case err == nil && bytes.HasPrefix(end, kept), errors.Is(err, os.ErrNotExist):
			return aside, false, remove(aside)
		case err != nil:
			return "", false, err
		}
		aside = fmt.Sprintf("%s-%d", path, n) // the steps differed: keep both
	}
}

// dropDone removes ends of logs whose lines the run has written again since.
func (d *Dir) dropDone() error {
	parent := filepath.Join(d.Path, Checkpoints, RolledBackDir)
	entries, err := os.ReadDir(parent)
	if errors.Is(err, os.ErrNotExist) || err == nil && d.first == "" {
		return nil
	}
	if err != nil {
		return err
	}
	now, err := os.ReadFile(d.File(d.first))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), afterStep) || strings.HasSuffix(e.Name(), partial) {
			continue
		}
		aside := filepath.Join(parent, e.Name())
		kept, err := os.ReadFile(filepath.Join(aside, d.first))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil && bytes.Contains(now, kept[:bytes.LastIndexByte(kept, '\n')+1]) {
			err = remove(aside)
		}
		if err != nil {
			return err
		}
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
		return err
	}
	return disk.Remove(parent)
}

// datedPath is a path in parent that does not exist yet.
func datedPath(parent string) string {
	now := time.Now().Format("2006_01_02-15_04_05")
	name := filepath.Join(parent, now)
	for n := 2; ; n++ {
		if _, err := os.Lstat(name); err != nil {
			return name
		}
		name = filepath.Join(parent, fmt.Sprintf("%s-%d", now, n))
	}
}

// end reads what the first log has beyond a point.
func (d *Dir) end(logs []string, p Point) ([]byte, error) {
	if len(logs) == 0 {
		return nil, nil
	}
	f, err := os.Open(d.File(logs[0]))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.Seek(p.Logs[logs[0]], io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(f)
}

// keepEnds copies the ends of the logs into a new folder, which appears whole or not at all.
func (d *Dir) keepEnds(aside string, logs []string, p Point) error {
	unfinished := aside + partial
	if err := errors.Join(disk.RemoveAll(unfinished), disk.MkdirAll(unfinished)); err != nil {
		return err
	}
	for _, name := range logs {
		if err := copyEnd(d.File(name), filepath.Join(unfinished, name), p.Logs[name]); err != nil {
			return errors.Join(err, disk.RemoveAll(unfinished))
		}
	}
	for _, name := range p.Files {
		if err := copyEnd(d.File(name), filepath.Join(unfinished, name), 0); err != nil {
			return errors.Join(err, disk.RemoveAll(unfinished))
		}
	}
	return errors.Join(disk.SyncFolder(unfinished), disk.Rename(unfinished, aside), disk.SyncFolder(filepath.Dir(aside)))
}

// copyEnd copies a file from an offset on.
func copyEnd(from, to string, at int64) error {
	in, err := os.Open(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	if _, err := in.Seek(at, io.SeekStart); err != nil {
		return err
	}
	out, err := disk.Append(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}

// ShortLogError is the error of a log that is shorter than it was at a point.
type ShortLogError struct{ error }

// CheckLogs checks that the logs of the run in dir are at least as long as they were at a point. A log can be shorter after a
// power cut on a disk that loses synced data, or after it was edited.
func CheckLogs(dir string, p Point) error {
	for name, had := range p.Logs {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		has := int64(0)
		if err == nil {
			has = info.Size()
		}
		if has < had {
			return ShortLogError{fmt.Errorf("%s has %d bytes and had %d when the checkpoint was made: somebody shortened it, or the power was cut",
				filepath.Join(dir, name), has, had)}
		}
	}
	return nil
}

// sweep removes checkpoints and set-aside folders that were only partly written or removed.
func (d *Dir) sweep() error {
	for _, dir := range []string{filepath.Join(d.Path, Checkpoints), filepath.Join(d.Path, Checkpoints, RolledBackDir)} {
		entries, err := os.ReadDir(dir)
		if os.IsNotExist(err) {
			continue
		}
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), partial) {
				err = errors.Join(err, disk.RemoveAll(filepath.Join(dir, e.Name())))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
