package rundir

import (
	"errors"
	"fmt"
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
