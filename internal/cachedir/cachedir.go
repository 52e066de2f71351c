// Package cachedir finds folders for what can be downloaded or computed again. If the wanted one is unusable, a temporary
// one takes its place: a missing, full or read-only home directory is no reason to fail.
package cachedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Find returns the folder of that name in the user's cache, such as "grpo/datasets", or a temporary one, with a warning that says why.
func Find(name string) (dir, warning string, err error) {
	cache, err := User()
	if err != nil {
		return temporaryDir(name, "no folder for a cache: "+err.Error(), "XDG_CACHE_HOME")
	}
	return OrTemp(filepath.Join(cache, name), name, "XDG_CACHE_HOME")
}

// User is the user's cache directory, which need not exist. If the home directory is not an absolute path there is none, as it would
// depend on the working directory.
func User() (string, error) {
	cache, err := os.UserCacheDir()
	if err == nil && !filepath.IsAbs(cache) {
		err = fmt.Errorf("HOME is %q, which is no absolute path", os.Getenv("HOME"))
	}
	return cache, err
}

// OrTemp returns the wanted folder, or if it is not writable, one of that name in a temporary place. variable is the
// environment variable that chooses another, for the warning.
func OrTemp(wanted, name, variable string) (dir, warning string, err error) {
	if err := Probe(wanted); err != nil {
		return temporaryDir(name, fmt.Sprintf("cache folder: %v", err), variable)
	}
	return wanted, "", nil
}

// Probe makes a folder if necessary, and checks that a file can be written in it.
func Probe(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".grpo-probe-*.tmp")
	if err == nil {
		defer os.Remove(f.Name())
		_, err = f.Write(make([]byte, 4096))
		err = errors.Join(err, f.Close())
	}
	var at *fs.PathError
	if errors.As(err, &at) {
		return &fs.PathError{Op: "write", Path: dir, Err: at.Err}
	}
	return err
}

// temporaryDir returns a folder of that name in the user's temporary folder.
func temporaryDir(name, why, variable string) (dir, warning string, err error) {
	own, err := ownFolder(filepath.Join(os.TempDir(), fmt.Sprintf("grpo-%d", os.Getuid())))
	if err != nil {
		return "", "", fmt.Errorf("%s, and no temporary one either: %w; set %s to a folder that can be written", why, err, variable)
	}
	dir = filepath.Join(own, name)
	if err := Probe(dir); err != nil {
		return "", "", fmt.Errorf("%s, and no temporary one either: %w; set %s to a folder that can be written", why, err, variable)
	}
	return dir, fmt.Sprintf("%s; %s takes its place, set %s to a folder that lasts", why, dir, variable), nil
}

// ownFolder makes a folder that only this user can write to. One that belongs to somebody else is refused, as models and
// programs are read from it.
func ownFolder(dir string) (string, error) {
	if err := os.Mkdir(dir, 0o700); err == nil {
		return dir, nil
	} else if !os.IsExist(err) {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && info.IsDir() && int(s.Uid) == os.Getuid() && info.Mode().Perm()&0o022 == 0 {
		return dir, nil
	}
	return os.MkdirTemp("", "grpo-")
}
