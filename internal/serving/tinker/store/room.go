package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/disk"
	"github.com/seed-7879b91d/grpo/internal/display"
)

// room caches how much of its disk a store uses.
type room struct {
	mu    sync.Mutex
	used  int64
	since time.Time // when it was measured
	asked int       // checks since then
}

// A measured size is used for this long, and for this many requests, each of which may write something.
const (
	fresh = 5 * time.Second
	few   = 32
)

// reserveOf is how much of a disk is left free: accepted requests have to be finished, too.
func reserveOf(disk int64) int64 { return min(1<<30, disk/20) }

// CheckSpace returns an error if the store uses more than most bytes (0: no limit), or the disk is nearly full.
func (s *Store) CheckSpace(most int64) error {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(s.dir, &disk); err != nil {
		return &fs.PathError{Op: "statfs", Path: s.dir, Err: err}
	}
	free, all := int64(disk.Bavail)*int64(disk.Bsize), int64(disk.Blocks)*int64(disk.Bsize)
	if free < reserveOf(all) {
		return badinput.Errorf("the disk of the store is nearly full: %d MB are free; delete checkpoints or sessions, or give it more room",
			free>>20)
	}
	if most == 0 {
		return nil
	}
	used, err := s.usage()
	if err == nil && used >= most {
		err = badinput.Errorf("the store has %d MB of the %d that it may take; delete checkpoints or sessions, or start the server "+
			"with a larger --store-bytes", used>>20, most>>20)
	}
	return err
}

// usage is the size of the store's files, measured recently.
func (s *Store) usage() (int64, error) {
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	if s.room.asked++; s.room.asked < few && time.Since(s.room.since) < fresh {
		return s.room.used, nil
	}
	used := int64(0)
	err := filepath.WalkDir(s.dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // removed in the meantime
		}
		if info, err := d.Info(); err == nil {
			if sys, ok := info.Sys().(*syscall.Stat_t); ok {
				used += 512 * sys.Blocks
			}
		}
		return nil
	})
	s.room.used, s.room.since, s.room.asked = used, time.Now(), 0
	return used, err
}

// isStore refuses a directory that is neither empty nor a store.
func isStore(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // Open makes it, or reports the error
	}
	ours := append([]string{".lock", "secret"}, folders...)
	other := slices.IndexFunc(entries, func(e fs.DirEntry) bool {
		return !slices.Contains(ours, e.Name()) && !atomicfile.IsTemp(e.Name(), "secret")
	})
	_, secret := os.Stat(filepath.Join(dir, "secret"))
	_, runs := os.Stat(filepath.Join(dir, "runs"))
	if other >= 0 && (secret != nil || runs != nil) {
		return badinput.Errorf("%s is no store: it has %q in it; type the name of a new directory, such as --store %s",
			dir, entries[other].Name(), filepath.Join(dir, "store"))
	}
	return nil
}

// Check returns, before any model is loaded, why Open would refuse a directory or could not write there. It leaves nothing behind.
// A full disk is no error, as deleting from the store makes room.
func Check(dir string) error {
	if err := isStore(dir); err != nil {
		return err
	}
	if _, err := os.ReadFile(filepath.Join(dir, "secret")); errors.Is(err, fs.ErrNotExist) {
		return nil // Open makes the store
	} else if err != nil {
		return badinput.Errorf("%w; make it readable, or type another directory, such as --store %s", err, suggestDir(dir))
	}
	for _, sub := range append([]string{""}, folders...) {
		probe, err := disk.CreateTemp(filepath.Join(dir, sub), ".probe.*.tmp")
		switch {
		case err == nil:
			err = errors.Join(probe.Close(), disk.Remove(probe.Name()))
		case errors.Is(err, fs.ErrNotExist) && sub != "", disk.IsFull(err):
			err = nil
		default:
			why := (*fs.PathError)(nil)
			if errors.As(err, &why) {
				err = why.Err
			}
			err = badinput.Errorf("nothing can be written in %s (%w); make it writable, or type another directory, such as --store %s",
				filepath.Join(dir, sub), err, suggestDir(dir))
		}
		if err != nil {
			return err
		}
	}
	lock, err := claim(dir, 0)
	if err == nil {
		return lock.Close()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// suggestDir suggests another directory, in the working directory, as the parent of this one may be read-only.
func suggestDir(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return display.ShellQuote(filepath.Base(dir) + "-2")
}
