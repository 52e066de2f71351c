package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/look"
)

// Reserve takes a directory of that name, which no other process has; where there is one it adds a number to the name.
// An empty directory is made at once, and is gone again after Close unless something was begun in it.
func Reserve(path string) (*Dir, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, Elsewhere(err)
	}
	name := path
	for n := 2; ; n++ {
		err := os.Mkdir(name, 0o755)
		if err == nil {
			break
		}
		if !os.IsExist(err) {
			return nil, Elsewhere(err)
		}
		name = fmt.Sprintf("%s-%d", path, n)
	}
	d, err := Claim(name)
	if err != nil {
		return nil, errors.Join(err, os.Remove(name))
	}
	d.reserved = true
	return d, nil
}

// shared are directories that every system has for something else, though some people may write there.
var shared = []string{"/bin", "/boot", "/dev", "/dev/shm", "/etc", "/home", "/lib", "/proc", "/root", "/run", "/sbin", "/sys", "/tmp",
	"/usr", "/var", "/var/tmp"}

// Taken says of a directory that is something else what it is, "" where a run may be kept in it. One below the home directory or /tmp may;
// below what git keeps none may, since git removes what it does not know.
func Taken(path string) string {
	is := func(other string) bool {
		a, err := os.Stat(path)
		b, berr := os.Stat(other)
		return err == nil && berr == nil && os.SameFile(a, b)
	}
	home, err := os.UserHomeDir()
	switch {
	case is("/"):
		return "the root of the file system"
	case err == nil && is(home):
		return "your home directory"
	case slices.ContainsFunc(shared, is):
		return "a directory of the whole system"
	}
	for at := whole(path); ; at = filepath.Dir(at) {
		if there(at, "HEAD") && there(at, "objects") && there(at, "refs") {
			return "where git keeps a repository"
		}
		if at == filepath.Dir(at) {
			return ""
		}
	}
}

// whole is a path from the root on, without links as far as it is there.
func whole(path string) string {
	path, _ = filepath.Abs(path)
	for at := path; ; at = filepath.Dir(at) {
		if real, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(real, strings.TrimPrefix(path, at))
		}
		if at == filepath.Dir(at) {
			return path
		}
	}
}

func there(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

// leads refuses a path that leads through what is not there: by a link, or back out of it.
func leads(path string) error {
	parts := strings.Split(path, "/")
	for i := 1; i <= len(parts); i++ {
		at := strings.Join(parts[:i], "/")
		if at == "" {
			continue
		}
		if _, err := os.Stat(at); !os.IsNotExist(err) {
			continue
		}
		if to, err := os.Readlink(at); err == nil {
			if !filepath.IsAbs(to) {
				to = filepath.Join(filepath.Dir(at), to)
			}
			return badinput.Errorf("run_dir: %s is a link to %s, where there is nothing; type mkdir -p %s to have it there, or choose another one",
				at, to, look.Word(to))
		}
		if slices.Contains(parts[i:], "..") {
			return badinput.Errorf("run_dir: %s leads through %s, which is not there; type run_dir=%s, or choose another one", path, at,
				look.Word(filepath.Clean(path)))
		}
		return nil
	}
	return nil
}

// probe finds out whether the directory can be written to, or made, and leaves nothing.
func (d *Dir) probe() error {
	at := filepath.Clean(d.Path)
	for {
		info, err := os.Stat(at)
		if err == nil && !info.IsDir() {
			return fmt.Errorf("%s: not a directory", at)
		}
		if err == nil {
			break
		}
		if !os.IsNotExist(err) {
			return err
		}
		if at == filepath.Dir(at) {
			return err
		}
		at = filepath.Dir(at)
	}
	probe, err := os.MkdirTemp(at, ".grpo-probe-*.tmp")
	if made := (*fs.PathError)(nil); errors.As(err, &made) {
		return &fs.PathError{Op: "write", Path: at, Err: made.Err}
	}
	if err != nil {
		return err
	}
	return os.Remove(probe)
}

// Others lists what is in a directory and not hidden, but for files of those names.
func Others(path string, own []string) (others []string) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil // as with one that is not there, who writes to it is told
	}
	for _, e := range entries {
		if name := e.Name(); !strings.HasPrefix(name, ".") && name != "lost+found" && !slices.Contains(own, name) {
			others = append(others, name)
		}
	}
	return others
}

// CheckForeign refuses to put a run where it would overwrite what is no run's, and names other files that are there.
// own are the names of files that only runs have; precious those that others may have, too.
func CheckForeign(path string, own, precious []string) (others []string, err error) {
	if _, err := os.Stat(filepath.Join(path, StateFile)); err == nil {
		return nil, badinput.Errorf("run_dir=%s is a checkpoint of a run; type resume=%s to go on from it, or init_from=%s to fork it",
			path, look.Word(path), look.Word(path))
	}
	others = Others(path, own)
	for _, name := range others {
		if slices.Contains(precious, name) {
			return nil, badinput.Errorf("run_dir=%s holds a %s that is no run's; choose another one", path, name)
		}
	}
	return others, nil
}
