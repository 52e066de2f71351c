// Package destination looks at the place that a result is to be written to before the hours of work that it is the
// result of: whether it may be written there, and whether something is lost by it.
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
	"github.com/seed-7879b91d/grpo/internal/look"
)

// Place is where a user wants a result.
type Place struct {
	Flag   string   // that names it
	Path   string   // "": nowhere, and there is nothing to look at
	Folder bool     // is what is written, and its parents are made; otherwise a file
	Anew   bool     // the folder takes the place of an empty one
	Name   string   // that a file could have in a folder that was named in its place
	Reads  []string // files and folders that the result is made of; what is no path is passed over
	Run    string   // is one, whatever is in it
}

// Check refuses a place that nothing can be written to, and one where it would replace what is read or what a run is
// made of. It leaves nothing behind.
func (p Place) Check() error {
	if p.Path == "" {
		return nil
	}
	if p.Path == "-" {
		return badinput.Errorf("%s -: expected the name of a file or a folder; type %[1]s ./- for one that is called so", p.Flag)
	}
	if unread := look.Unread(p.Flag+" ", p.Path); unread != "" {
		return badinput.Errorf("%s %s: %s", p.Flag, p.Path, unread)
	}
	if run := p.within(); run != "" {
		return badinput.Errorf("%s %s: %s is a run, and its files stay as they are; choose another place, such as %s %s",
			p.Flag, p.Path, short(run), p.Flag, look.Word(beside(run, p.Path)))
	}
	info, err := os.Stat(p.Path)
	to, lerr := os.Readlink(p.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && lerr == nil: // in its place nothing would be where it leads
		return badinput.Errorf("%s %s: it is a link to %s, where there is nothing; type the place itself, or choose another name",
			p.Flag, p.Path, to)
	case errors.Is(err, fs.ErrNotExist):
		return p.checkFolder()
	case errors.Is(err, fs.ErrPermission):
		return badinput.Errorf("%s %s: it may not be looked at; choose another place", p.Flag, p.Path)
	case err != nil: // a parent is a file, say
		return p.checkFolder()
	case p.Folder && !info.IsDir():
		return badinput.Errorf("%s %s: found a file, expected a directory, or none yet; choose another name", p.Flag, p.Path)
	case !p.Folder && info.IsDir():
		return badinput.Errorf("%s %s: found a directory, expected a file; type %s %s", p.Flag, p.Path, p.Flag,
			look.Word(filepath.Join(p.Path, p.Name)))
	case !p.Folder && !info.Mode().IsRegular():
		return badinput.Errorf("%s %s: this is no ordinary file, and a file would take its place; type %s %s", p.Flag, p.Path, p.Flag, p.Name)
	}
	if here, err := os.Stat("."); err == nil && p.Anew && os.SameFile(info, here) {
		return badinput.Errorf("%s %s: it is the folder that you are in, and another one would take its place; choose a new one, "+
			"such as %[1]s model", p.Flag, p.Path)
	}
	if err := p.checkReads(info); err != nil {
		return err
	}
	return p.checkFolder()
}

// Failed says of a result for which there was no room where it is to be made what to do. Other errors stay as they are.
func (p Place) Failed(err error) error {
	err = atomicfile.Named(p.Path, err)
	var at *fs.PathError
	if !errors.As(err, &at) || !disk.Full(at.Err) || !slices.Contains(slices.Collect(parents(resolve(at.Path))), resolve(p.Path)) {
		return err
	}
	return fmt.Errorf("%s %s: %w; make room there, or choose another place", p.Flag, p.Path, at.Err)
}

// checkReads refuses to replace what is read.
func (p Place) checkReads(out os.FileInfo) error {
	for _, in := range p.Reads {
		info, err := os.Stat(in)
		if err != nil {
			continue
		}
		if os.SameFile(info, out) {
			return badinput.Errorf("%s %s: this is what is read, and it would be replaced; choose another name", p.Flag, p.Path)
		}
		if !p.Folder && info.IsDir() {
			for dir := range parents(resolve(p.Path)) {
				if dir == resolve(in) {
					return badinput.Errorf("%s %s: a file of %s, which is read; choose another name", p.Flag, p.Path, in)
				}
			}
		}
	}
	return nil
}

// checkFolder wants a folder that files can be made in: the one of the file, or of a folder the nearest that is there.
func (p Place) checkFolder() error {
	dir := filepath.Dir(p.Path)
	if p.Folder {
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
	probe, err := p.probe(dir) // what the bits say is not all: a disk may be read-only
	if errors.Is(err, syscall.ENAMETOOLONG) {
		short := filepath.Join(dir, shorter(filepath.Base(p.Path)))
		return badinput.Errorf("%s %s: the name is too long, which gets up to %d bytes more until it is whole; "+
			"type a shorter one, such as %[1]s %[4]s", p.Flag, p.Path, atomicfile.More, look.Word(short))
	}
	if err != nil {
		return badinput.Errorf("%s %s: nothing can be written in %s (%w); choose another place", p.Flag, p.Path, dir, cause(err))
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// probe makes a file in dir, with a name as long as any that is to be made there or in a folder that is to be made below.
func (p Place) probe(dir string) (*os.File, error) {
	longest := 0
	if !p.Folder || p.Anew { // which is written beside itself first
		longest = len(filepath.Base(p.Path)) + atomicfile.More
	}
	for at := filepath.Clean(p.Path); p.Folder && at != dir; at = filepath.Dir(at) {
		longest = max(longest, len(filepath.Base(at)))
	}
	name := fmt.Sprintf(".grpo-probe-%010d", rand.Uint32())
	name += strings.Repeat("x", max(0, longest-len(name)-len(".tmp"))) + ".tmp"
	return os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// shorter is the beginning of a name, with its ending where that says what kind of file it is.
func shorter(name string) string {
	end := filepath.Ext(name)
	if len(end) > 16 {
		end = ""
	}
	name = strings.TrimSuffix(name, end)
	return strings.ToValidUTF8(name[:min(len(name), 32)], "") + end
}

// missing tells that nothing is seen under this name.
func missing(path string) bool {
	_, err := os.Lstat(path)
	return err != nil
}

// cause is an error without the path that it happened to.
func cause(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// marks are names that stand together in the directory of a run, or in that of a checkpoint. One alone may be anybody's:
// a table of a run that was exported may be called metrics.jsonl.
var marks = [][2]string{{"metrics.jsonl", "manifest.json"}, {"metrics.jsonl", "checkpoints"}, {"state.json", "optimizer.safetensors"}}

// within is the run whose directory the place is, or is in, "" where there is none: by its name, and by where links lead.
func (p Place) within() (run string) {
	named, _ := os.Stat(p.Run)
	asNamed := filepath.Join(resolve(filepath.Dir(p.Path)), filepath.Base(p.Path))
	for _, path := range []string{asNamed, resolve(p.Path)} {
		for dir := range parents(path) {
			if info, err := os.Stat(dir); err == nil && named != nil && os.SameFile(info, named) {
				return dir
			}
			for _, m := range marks {
				if !missing(filepath.Join(dir, m[0])) && !missing(filepath.Join(dir, m[1])) {
					run = dir // or one further up, where this is a checkpoint
				}
			}
		}
	}
	return run
}

// parents gives a path and all that it is in.
func parents(path string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for yield(path) && path != filepath.Dir(path) {
			path = filepath.Dir(path)
		}
	}
}

// resolve is where a path leads, absolute; its last parts need not be there yet.
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

// short is a path as somebody who is in the working directory would type it.
func short(path string) string {
	rel, err := filepath.Rel(resolve("."), path)
	if err != nil || rel == "." || strings.HasPrefix(rel, "..") {
		return path
	}
	return rel
}

// beside is a free place like the wanted one, outside of the run.
func beside(run, path string) string {
	name := filepath.Base(path)
	if resolve(path) == run {
		name = filepath.Base(run) + "-out"
	}
	for !missing(filepath.Join(filepath.Dir(run), name)) {
		name = "new-" + name
	}
	return short(filepath.Join(filepath.Dir(run), name))
}
