// Package destination checks, before hours of work, the place that their result is to be written to: whether it is
// writable, and whether something would be overwritten.
package destination

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/disk"
	"github.com/seed-7879b91d/grpo/internal/display"
)

// Place is where a user wants a result.
type Place struct {
	Flag         string   // that names the place
	Path         string   // "": nowhere, so nothing is checked
	IsDir        bool     // the result is a folder, whose parents are made; else a file
	ReplaceEmpty bool     // the folder replaces an empty one
	Name         string   // a file name to suggest if a folder was named
	Inputs       []string // files and folders that the result is made from; other strings are ignored
	Run          string   // this run's directory is allowed
}

// Check refuses a place that is not writable, or where the result would overwrite what it is made from, or files of a
// run. It leaves nothing behind.
func (p Place) Check() error {
	if p.Path == "" {
		return nil
	}
	if p.Path == "-" {
		return badinput.Errorf("%s -: expected the name of a file or a folder; type %[1]s ./- for one that is called so", p.Flag)
	}
	if unread := display.TildeHint(p.Flag+" ", p.Path); unread != "" {
		return badinput.Errorf("%s %s: %s", p.Flag, p.Path, unread)
	}
	if run := p.within(); run != "" {
		return badinput.Errorf("%s %s: %s is a run, and its files stay as they are; choose another place, such as %s %s",
			p.Flag, p.Path, relativeIfShorter(run), p.Flag, display.ShellQuote(freePath(run, p.Path)))
	}
	info, err := os.Stat(p.Path)
	to, lerr := os.Readlink(p.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && lerr == nil: // a broken link
		return badinput.Errorf("%s %s: it is a link to %s, which does not exist; type the target itself, or choose another name",
			p.Flag, p.Path, to)
	case errors.Is(err, fs.ErrNotExist):
		return p.checkFolder()
	case errors.Is(err, fs.ErrPermission):
		return badinput.Errorf("%s %s: you may not read it; choose another place", p.Flag, p.Path)
	case err != nil: // for example, a parent is a file
		return p.checkFolder()
	case p.IsDir && !info.IsDir():
		return badinput.Errorf("%s %s: found a file, expected a directory, or none yet; choose another name", p.Flag, p.Path)
	case !p.IsDir && info.IsDir():
		return badinput.Errorf("%s %s: found a directory, expected a file; type %s %s", p.Flag, p.Path, p.Flag,
			display.ShellQuote(filepath.Join(p.Path, p.Name)))
	case !p.IsDir && !info.Mode().IsRegular():
		return badinput.Errorf("%s %s: this is not a regular file, and would be replaced by one; type %s %s", p.Flag, p.Path, p.Flag, p.Name)
	}
	if here, err := os.Stat("."); err == nil && p.ReplaceEmpty && os.SameFile(info, here) {
		return badinput.Errorf("%s %s: this is the current folder, and would be replaced; choose a new one, "+
			"such as %[1]s model", p.Flag, p.Path)
	}
	if err := p.checkReads(info); err != nil {
		return err
	}
	return p.checkFolder()
}

// Failed adds to the error of a full disk what to do. Other errors are returned unchanged.
func (p Place) Failed(err error) error {
	err = atomicfile.WithPath(p.Path, err)
	var at *fs.PathError
	if !errors.As(err, &at) || !disk.IsFull(at.Err) || !slices.Contains(slices.Collect(parents(resolve(at.Path))), resolve(p.Path)) {
		return err
	}
	return fmt.Errorf("%s %s: %w; make room there, or choose another place", p.Flag, p.Path, at.Err)
}

// checkReads refuses to overwrite what is read.
func (p Place) checkReads(out os.FileInfo) error {
	for _, in := range p.Inputs {
		info, err := os.Stat(in)
		if err != nil {
			continue
		}
		if os.SameFile(info, out) {
			return badinput.Errorf("%s %s: this is the input, and would be overwritten; choose another name", p.Flag, p.Path)
		}
		if !p.IsDir && info.IsDir() {
			for dir := range parents(resolve(p.Path)) {
				if dir == resolve(in) {
					return badinput.Errorf("%s %s: a file of the input %s; choose another name", p.Flag, p.Path, in)
				}
			}
		}
	}
	return nil
}

// checkFolder checks that files can be made in the folder of the result; for a folder, in its nearest existing parent.
func (p Place) checkFolder() error {
	dir := filepath.Dir(p.Path)
	if p.IsDir {
		dir = filepath.Clean(p.Path)
		for missing(dir) && dir != filepath.Dir(dir) {
			dir = filepath.Dir(dir)
		}
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return badinput.Errorf("%s %s: there is no folder %s; make it first, or choose another file", p.Flag, p.Path, dir)
	case err != nil:
		return badinput.Errorf("%s %s: the folder %s cannot be opened: %w; choose another one", p.Flag, p.Path, dir, err)
	case !info.IsDir():
		return badinput.Errorf("%s %s: %s is a file, expected a folder; choose another place", p.Flag, p.Path, dir)
	}
	probe, err := p.probe(dir) // permissions are not enough: a disk may be read-only
	if errors.Is(err, syscall.ENAMETOOLONG) {
		short := filepath.Join(dir, shortName(filepath.Base(p.Path)))
		return badinput.Errorf("%s %s: the name is too long, which gets up to %d bytes more until it is whole; "+
			"type a shorter one, such as %[1]s %[4]s", p.Flag, p.Path, atomicfile.NameOverhead, display.ShellQuote(short))
	}
	if err != nil {
		return badinput.Errorf("%s %s: nothing can be written in %s (%w); choose another place", p.Flag, p.Path, dir, withoutPath(err))
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// probe makes a file in dir, with a name as long as the longest that will be made there or below.
func (p Place) probe(dir string) (*os.File, error) {
	longest := 0
	if !p.IsDir || p.ReplaceEmpty { // it is written to a temporary folder beside it
		longest = len(filepath.Base(p.Path)) + atomicfile.NameOverhead
	}
	for at := filepath.Clean(p.Path); p.IsDir && at != dir; at = filepath.Dir(at) {
		longest = max(longest, len(filepath.Base(at)))
	}
	name := fmt.Sprintf(".grpo-probe-%010d", rand.Uint32())
	name += strings.Repeat("x", max(0, longest-len(name)-len(".tmp"))) + ".tmp"
	return os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// shortName is the beginning of a name, keeping a file extension.
func shortName(name string) string {
	end := filepath.Ext(name)
	if len(end) > 16 {
		end = ""
	}
	name = strings.TrimSuffix(name, end)
	return strings.ToValidUTF8(name[:min(len(name), 32)], "") + end
}

// missing reports whether a path does not exist.
func missing(path string) bool {
	_, err := os.Lstat(path)
	return err != nil
}

// withoutPath is an error without its path.
func withoutPath(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// runMarkers are pairs of names that occur together only in the directory of a run or a checkpoint. One alone proves nothing:
// an exported table may be called metrics.jsonl.
var runMarkers = [][2]string{{"metrics.jsonl", "manifest.json"}, {"metrics.jsonl", "checkpoints"}, {"state.json", "optimizer.safetensors"}}

// within is the run whose directory contains the place, directly or through links; "" if there is none.
func (p Place) within() (run string) {
	named, _ := os.Stat(p.Run)
	asNamed := filepath.Join(resolve(filepath.Dir(p.Path)), filepath.Base(p.Path))
	for _, path := range []string{asNamed, resolve(p.Path)} {
		for dir := range parents(path) {
			if info, err := os.Stat(dir); err == nil && named != nil && os.SameFile(info, named) {
				return dir
			}
			for _, m := range runMarkers {
				if !missing(filepath.Join(dir, m[0])) && !missing(filepath.Join(dir, m[1])) {
					run = dir // a checkpoint is in a run further up
				}
			}
		}
	}
	return run
}

// parents yields a path and its parents.
func parents(path string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for yield(path) && path != filepath.Dir(path) {
			path = filepath.Dir(path)
		}
	}
}

// resolve resolves links in a path, whose last parts need not exist.
func resolve(path string) string {
	path, _ = filepath.Abs(path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if path == filepath.Dir(path) {
		return path
	}
	return filepath.Join(resolve(filepath.Dir(path)), filepath.Base(path))
}

// relativeIfShorter is a path relative to the working directory, if that is shorter.
func relativeIfShorter(path string) string {
	rel, err := filepath.Rel(resolve("."), path)
	if err != nil || rel == "." || strings.HasPrefix(rel, "..") {
		return path
	}
	return rel
}

// freePath is a free path like the wanted one, outside of the run.
func freePath(run, path string) string {
	name := filepath.Base(path)
	if resolve(path) == run {
		name = filepath.Base(run) + "-out"
	}
	for !missing(filepath.Join(filepath.Dir(run), name)) {
		name = "new-" + name
	}
	return relativeIfShorter(filepath.Join(filepath.Dir(run), name))
}
