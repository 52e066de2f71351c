package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/disk"
)

// The kinds of checkpoints, as in their paths.
const (
	Weights = "weights"         // adapter and optimizer state
	Sampler = "sampler_weights" // only the adapter
	moments = "moments"         // the same, unnamed
	states  = "state"           // snapshots, for replaying the journal
)

// Checkpoint is a saved state of a model.
type Checkpoint struct {
	Kind    string     `json:"kind"`
	Name    string     `json:"name"`
	Seq     int64      `json:"seq"` // of the request that saved it
	Time    time.Time  `json:"time"`
	Expires *time.Time `json:"expires,omitempty"`
	Public  bool       `json:"public,omitempty"`
	Size    int64      `json:"size"`
	Dir     string     `json:"-"`
}

// ErrTaken is the error of a name that another checkpoint has.
var ErrTaken = errors.New("the name is taken")

const aboutName = "checkpoint.json"

// Save makes a checkpoint from what fill writes. If the same request has saved it before, it is left as it is.
func (r *Run) Save(c Checkpoint, overwrite bool, fill func(dir string) error) error {
	if err := CheckName("path", c.Name); err != nil {
		return err
	}
	path := filepath.Join(r.dir, c.Kind, c.Name)
	old, err := r.read(c.Kind, c.Name)
	there := err == nil
	switch {
	case there && old.Seq == c.Seq:
		return nil
	case there && !overwrite && !old.expired(time.Now()):
		return badinput.Errorf("path: %w: checkpoint %s/%s exists; delete it, or save with overwrite", ErrTaken, c.Kind, c.Name)
	}
	// A checkpoint that is replaced stays until the new one is complete, as the disk may be full.
	next := filepath.Join(r.dir, c.Kind, "."+c.Name)
	if err := errors.Join(disk.RemoveAll(next), disk.MkdirAll(filepath.Dir(path))); err != nil {
		return err
	}
	if err := atomicfile.WriteDir(next, func(dir string) error {
		if err := fill(dir); err != nil {
			return err
		}
		if c.Size, err = size(dir); err != nil {
			return err
		}
		return writeJSON(filepath.Join(dir, aboutName), c)
	}); err != nil {
		return err
	}
	r.swap.Lock()
	defer r.swap.Unlock()
	if old, err := r.read(c.Kind, c.Name); err == nil { // it may have expired in the meantime
		if err := r.remove(old); err != nil {
			return err
		}
	}
	err = errors.Join(disk.RemoveAll(path), disk.Rename(next, path), atomicfile.SyncDir(filepath.Dir(path)))
	r.expires(c) // before the rename: a check that does not find it yet does not come again
	return err
}

// expires schedules a check for when the checkpoint expires.
func (r *Run) expires(c Checkpoint) {
	if c.Expires != nil {
		r.expiry.at(r, *c.Expires)
	}
}

// SaveUnnamed saves an unnamed adapter, and removes the least recently used ones beyond keep.
func (r *Run) SaveUnnamed(seq int64, keep int, fill func(dir string) error) (string, error) {
	parent := filepath.Join(r.dir, moments)
	path := filepath.Join(parent, strconv.FormatInt(seq, 10))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := disk.MkdirAll(parent); err != nil {
		return "", err
	}
	if err := atomicfile.WriteDir(path, fill); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(parent)
	if err != nil {
		return "", err
	}
	age := func(e fs.DirEntry) time.Time {
		if info, err := e.Info(); err == nil {
			return info.ModTime()
		}
		return time.Time{}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return age(b).Compare(age(a)) })
	for _, e := range entries[min(keep, len(entries)):] {
		if e.Name() != filepath.Base(path) {
			err = errors.Join(err, disk.RemoveAll(filepath.Join(parent, e.Name())))
		}
	}
	return path, err
}

// Unnamed are the requests whose unnamed adapters exist.
func (r *Run) Unnamed() (all []int64, err error) {
	entries, err := os.ReadDir(filepath.Join(r.dir, moments))
	for _, e := range entries {
		if seq, err := strconv.ParseInt(e.Name(), 10, 64); err == nil {
			all = append(all, seq)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return all, err
}

// UnnamedDir is the folder of an unnamed adapter, which counts as used now.
func (r *Run) UnnamedDir(seq int64) (string, error) {
	path := filepath.Join(r.dir, moments, strconv.FormatInt(seq, 10))
	if _, err := os.Stat(path); err != nil {
		return "", badinput.Errorf("these weights are gone: only the latest unnamed weights are kept; save them with a name")
	}
	now := time.Now()
	return path, os.Chtimes(path, now, now)
}

func (c Checkpoint) expired(now time.Time) bool { return c.Expires != nil && !c.Expires.After(now) }

func (r *Run) read(kind, name string) (c Checkpoint, err error) {
	if kind != Weights && kind != Sampler || !plainName.MatchString(name) {
		return c, fs.ErrNotExist
	}
	c.Dir = filepath.Join(r.dir, kind, name)
	return c, readJSON(filepath.Join(c.Dir, aboutName), &c)
}

// Find returns an existing checkpoint.
func (r *Run) Find(kind, name string) (Checkpoint, error) {
	c, err := r.read(kind, name)
	if err == nil && c.expired(time.Now()) || errors.Is(err, fs.ErrNotExist) {
		return c, badinput.Errorf("there is no checkpoint tinker://%s/%.140s/%.140s", r.ID, kind, name)
	}
	return c, err
}

// WithCheckpoint calls read with a checkpoint, which is neither removed nor replaced in the meantime.
func (r *Run) WithCheckpoint(kind, name string, read func(Checkpoint) error) error {
	r.swap.Lock()
	defer r.swap.Unlock()
	c, err := r.Find(kind, name)
	if err != nil {
		return err
	}
	return read(c)
}

// Checkpoints lists all checkpoints by time, without the expired ones that Store.Expire has not removed yet.
func (r *Run) Checkpoints() (all []Checkpoint, err error) {
	now := time.Now()
	for _, kind := range []string{Weights, Sampler} {
		entries, err := os.ReadDir(filepath.Join(r.dir, kind))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			c, err := r.read(kind, e.Name())
			switch {
			case errors.Is(err, fs.ErrNotExist): // being written
			case err != nil:
				return nil, err
			case !c.expired(now):
				all = append(all, c)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Checkpoint) int { return a.Time.Compare(b.Time) })
	return all, nil
}

// Change changes the metadata of a checkpoint. It reads the current metadata first, as others may have changed it since it was found.
func (r *Run) Change(c Checkpoint, change func(*Checkpoint) error) (now Checkpoint, err error) {
	r.swap.Lock()
	defer r.swap.Unlock()
	now, err = r.read(c.Kind, c.Name)
	switch {
	case err == nil && now.Seq != c.Seq: // it was replaced since it was found
		return now, r.gone(c, fs.ErrNotExist)
	case err != nil:
		return now, r.gone(c, err)
	}
	if err := change(&now); err != nil {
		return now, err
	}
	r.expires(now)
	return now, writeJSON(filepath.Join(now.Dir, aboutName), now)
}

// Delete removes a checkpoint.
func (r *Run) Delete(c Checkpoint) error {
	r.swap.Lock()
	defer r.swap.Unlock()
	return r.gone(c, r.remove(c))
}

// gone translates the error of a file that does not exist to that of a missing checkpoint.
func (r *Run) gone(c Checkpoint, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return badinput.Errorf("there is no checkpoint %s any more: %w", Path(r.ID, c.Kind, c.Name), fs.ErrNotExist)
	}
	return err
}

// remove is Delete for callers that hold swap.
func (r *Run) remove(c Checkpoint) error {
	// The metadata first, so that a partly removed checkpoint is not taken for one.
	if err := disk.Remove(filepath.Join(c.Dir, aboutName)); err != nil {
		return err
	}
	return disk.RemoveAll(c.Dir)
}

func size(dir string) (bytes int64, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			bytes += info.Size()
		}
	}
	return bytes, err
}

// Path is the path of a checkpoint for clients.
func Path(run, kind, name string) string { return "tinker://" + run + "/" + kind + "/" + name }

// ParsePath parses what Path returns.
func ParsePath(path string) (run, kind, name string, err error) {
	parts := strings.Split(strings.TrimPrefix(path, "tinker://"), "/")
	if !strings.HasPrefix(path, "tinker://") || len(parts) != 3 {
		return "", "", "", badinput.Errorf("found %.200q, expected tinker://MODEL/%s/NAME or tinker://MODEL/%s/NAME",
			path, Weights, Sampler)
	}
	return parts[0], parts[1], parts[2], nil
}

// SetTTL sets the checkpoint to expire that many seconds from now; nil: never.
func (c *Checkpoint) SetTTL(seconds *int64) error {
	c.Expires = nil
	if seconds == nil {
		return nil
	}
	if *seconds < 1 || *seconds > 1<<31 {
		return badinput.Errorf("ttl_seconds: found %d, expected 1 to %d", *seconds, 1<<31)
	}
	at := time.Now().UTC().Add(time.Duration(*seconds) * time.Second)
	c.Expires = &at
	return nil
}
