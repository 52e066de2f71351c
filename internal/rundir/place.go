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
	"github.com/seed-7879b91d/grpo/internal/display"
)

// Reserve claims a directory of that name, or if it is taken, of that name with a number. A new directory is made at
// once; Close removes it again if it is still empty.
func Reserve(path string) (*Dir, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, WithOtherDirHint(err)
	}
	name := path
	for n := 2; ; n++ {
		err := os.Mkdir(name, 0o755)
		if err == nil {
			break
		}
		if !os.IsExist(err) {
			return nil, WithOtherDirHint(err)
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

// shared are system directories that are not meant for runs, even if the user may write there.
var shared = []string{"/bin", "/boot", "/dev", "/dev/shm", "/etc", "/home", "/lib", "/proc", "/root", "/run", "/sbin", "/sys", "/tmp",
	"/usr", "/var", "/var/tmp"}

// ProtectedDir says what a directory is that no run may be put into; "" if a run may. Below the home directory and /tmp it may. Inside a
// directory of git's own files none may, as git removes what it does not know.
func ProtectedDir(path string) string {
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
	for at := realPath(path); ; at = filepath.Dir(at) {
		if there(at, "HEAD") && there(at, "objects") && there(at, "refs") {
			return "where git keeps a repository"
		}
		if at == filepath.Dir(at) {
			return ""
		}
	}
}

// realPath is the absolute path with links resolved, as far as it exists.
func realPath(path string) string {
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

// checkLinks refuses a path through something that does not exist: a broken link, or .. of a missing directory.
func checkLinks(path string) error {
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
			return badinput.Errorf("run_dir: %s is a link to %s, which does not exist; type mkdir -p %s to create it, or choose another one",
				at, to, display.ShellQuote(to))
		}
		if slices.Contains(parts[i:], "..") {
			return badinput.Errorf("run_dir: %s leads through %s, which does not exist; type run_dir=%s, or choose another one", path, at,
				display.ShellQuote(filepath.Clean(path)))
		}
		return nil
	}
	return nil
}

// probe checks that the directory can be written to, or made, and leaves nothing behind.
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

// OtherFiles lists the visible files of a directory, except those named in own.
func OtherFiles(path string, own []string) (others []string) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil // an error will be reported by whoever writes there
	}
	for _, e := range entries {
		if name := e.Name(); !strings.HasPrefix(name, ".") && name != "lost+found" && !slices.Contains(own, name) {
			others = append(others, name)
		}
	}
	return others
}

// CheckForeign refuses a directory where a run would overwrite files of something else, and lists other files that are
// there. own are names of files that only runs have; precious are names that other programs use too.
func CheckForeign(path string, own, precious []string) (others []string, err error) {
	if _, err := os.Stat(filepath.Join(path, StateFile)); err == nil {
		return nil, badinput.Errorf("run_dir=%s is a checkpoint of a run; type resume=%s to resume from it, or init_from=%s to fork it",
			path, display.ShellQuote(path), display.ShellQuote(path))
	}
	others = OtherFiles(path, own)
	for _, name := range others {
		if slices.Contains(precious, name) {
			return nil, badinput.Errorf("run_dir=%s has a %s that belongs to no run; choose another directory", path, name)
		}
	}
	return others, nil
}
