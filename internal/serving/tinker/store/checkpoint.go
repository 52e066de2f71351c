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

// The kinds of checkpoints, as they stand in a path.
const (
	Weights = "weights"         // with the optimizer's state
	Sampler = "sampler_weights" // the adapter alone
	moments = "moments"         // the same, without a name
	states  = "state"           // where a replay of the journal begins
)

// Checkpoint is the saved state of a model.
type Checkpoint struct {
	Kind    string     `json:"kind"`
	Name    string     `json:"name"`
	Seq     int64      `json:"seq"` // of the request that it was saved by
	Time    time.Time  `json:"time"`
	Expires *time.Time `json:"expires,omitempty"`
	Public  bool       `json:"public,omitempty"`
	Size    int64      `json:"size"`
	Dir     string     `json:"-"`
}

// ErrTaken refuses a name that a checkpoint has.
var ErrTaken = errors.New("the name is taken")

const aboutName = "checkpoint.json"

// Save makes a checkpoint of what fill writes. One of the same name and request is there already: it is left alone.
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
	// What is replaced stays until all of the new one is there: the disk may be full.
	next := filepath.Join(r.dir, c.Kind, "."+c.Name)
	if err := errors.Join(disk.RemoveAll(next), disk.MkdirAll(filepath.Dir(path))); err != nil {
		return err
	}
	if err := atomicfile.Folder(next, func(dir string) error {
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
	if old, err := r.read(c.Kind, c.Name); err == nil { // unless it has expired meanwhile
		if err := r.remove(old); err != nil {
			return err
		}
	}
	err = errors.Join(disk.RemoveAll(path), disk.Rename(next, path), atomicfile.SyncDir(filepath.Dir(path)))
	r.expires(c) // now: who looks for it before it is there would not find it, and not come again
	return err
}

// expires has a checkpoint looked at when it has expired.
func (r *Run) expires(c Checkpoint) {
	if c.Expires != nil {
		r.expiry.at(r, *c.Expires)
	}
}

// Moment keeps an adapter without a name, and only so many of them: the one that was not used for longest goes.
func (r *Run) Moment(seq int64, keep int, fill func(dir string) error) (string, error) {
	parent := filepath.Join(r.dir, moments)
	path := filepath.Join(parent, strconv.FormatInt(seq, 10))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := disk.MkdirAll(parent); err != nil {
		return "", err
	}
	if err := atomicfile.Folder(path, fill); err != nil {
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

// Moments are the requests whose adapters without a name are there.
func (r *Run) Moments() (all []int64, err error) {
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

// MomentOf is the folder of an adapter without a name, which was used now.
func (r *Run) MomentOf(seq int64) (string, error) {
	path := filepath.Join(r.dir, moments, strconv.FormatInt(seq, 10))
	if _, err := os.Stat(path); err != nil {
		return "", badinput.Errorf("these weights are not kept any more: only the latest are, where they have no name; save them with one")
	}
	now := time.Now()
	return path, os.Chtimes(path, now, now)
}

func (c Checkpoint) expired(now time.Time) bool { return c.Expires != nil && !c.Expires.After(now) }

func (r *Run) read(kind, name string) (c Checkpoint, err error) {
	if kind != Weights && kind != Sampler || !plain.MatchString(name) {
		return c, fs.ErrNotExist
	}
	c.Dir = filepath.Join(r.dir, kind, name)
	return c, readJSON(filepath.Join(c.Dir, aboutName), &c)
}

// Find is a checkpoint that is there.
func (r *Run) Find(kind, name string) (Checkpoint, error) {
	c, err := r.read(kind, name)
	if err == nil && c.expired(time.Now()) || errors.Is(err, fs.ErrNotExist) {
		return c, badinput.Errorf("there is no checkpoint tinker://%s/%.140s/%.140s", r.ID, kind, name)
	}
	return c, err
}

// Still reads a checkpoint, which is neither removed nor replaced meanwhile, as it is when that begins.
func (r *Run) Still(kind, name string, read func(Checkpoint) error) error {
	r.swap.Lock()
	defer r.swap.Unlock()
	c, err := r.Find(kind, name)
	if err != nil {
		return err
	}
	return read(c)
}

// Checkpoints are all that are there, in the order of their time. Those that have expired are not, though Store.Expire may not have
// removed them yet.
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
			case errors.Is(err, fs.ErrNotExist): // it is being written
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

// Change writes what a checkpoint says of itself anew, as change has it: others may have changed it since it was found.
func (r *Run) Change(c Checkpoint, change func(*Checkpoint) error) (now Checkpoint, err error) {
	r.swap.Lock()
	defer r.swap.Unlock()
	now, err = r.read(c.Kind, c.Name)
	switch {
	case err == nil && now.Seq != c.Seq: // another was saved since it was found
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

// gone says of a checkpoint that is not there any more that it is not, and of another error what it is.
func (r *Run) gone(c Checkpoint, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return badinput.Errorf("there is no checkpoint %s any more: %w", Path(r.ID, c.Kind, c.Name), fs.ErrNotExist)
	}
	return err
}

// remove is Delete where swap is held.
func (r *Run) remove(c Checkpoint) error {
	// First what makes it one: what is half removed is none.
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

// Path names a checkpoint to clients.
func Path(run, kind, name string) string { return "tinker://" + run + "/" + kind + "/" + name }

// ParsePath reads what Path wrote.
func ParsePath(path string) (run, kind, name string, err error) {
	parts := strings.Split(strings.TrimPrefix(path, "tinker://"), "/")
	if !strings.HasPrefix(path, "tinker://") || len(parts) != 3 {
		return "", "", "", badinput.Errorf("found %.200q, expected tinker://MODEL/%s/NAME or tinker://MODEL/%s/NAME",
			path, Weights, Sampler)
	}
	return parts[0], parts[1], parts[2], nil
}

// Live has the checkpoint expire so many seconds from now, or never where that is nil.
func (c *Checkpoint) Live(seconds *int64) error {
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
