package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/disk"
)

// ModelInfo describes a model.
type ModelInfo struct {
	ID       string            `json:"id"`
	Session  string            `json:"session"`
	Base     string            `json:"base"`
	Rank     int               `json:"rank"`
	Attn     bool              `json:"train_attn"`
	MLP      bool              `json:"train_mlp"`
	Seed     uint64            `json:"seed"`
	Metadata map[string]string `json:"user_metadata"`
	Created  time.Time         `json:"created"`
}

// Run is the folder of a model.
type Run struct {
	ModelInfo
	dir    string
	expiry *expiry
	swap   sync.Mutex // held while a checkpoint is removed or replaced
}

// Create makes the folder of a model.
func (s *Store) Create(a ModelInfo) (*Run, error) {
	dir, err := s.file("runs", a.ID)
	if err != nil {
		return nil, err
	}
	if err := disk.MkdirAll(dir); err != nil {
		return nil, err
	}
	return &Run{ModelInfo: a, dir: dir, expiry: &s.expiry}, writeJSON(filepath.Join(dir, "run.json"), a)
}

// Runs lists all models, and the errors of those that cannot be read.
func (s *Store) Runs() (runs []*Run, bad map[string]error, err error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, "runs"))
	bad = map[string]error{}
	for _, e := range entries {
		r := &Run{dir: filepath.Join(s.dir, "runs", e.Name()), expiry: &s.expiry}
		err := readJSON(filepath.Join(r.dir, "run.json"), &r.ModelInfo)
		if err == nil {
			err = r.sweep()
		}
		switch {
		case errors.Is(err, fs.ErrNotExist): // its creation was interrupted, and its client got no answer
		case err != nil:
			bad[e.Name()] = err
		default:
			s.expiry.at(r, time.Time{})
			runs = append(runs, r)
		}
	}
	return runs, bad, err
}

// sweep removes partly written folders, left by a kill during a save. Nobody may be saving.
func (r *Run) sweep() (err error) {
	for _, kind := range []string{Weights, Sampler, moments, states} {
		entries, missing := os.ReadDir(filepath.Join(r.dir, kind))
		if missing != nil && !errors.Is(missing, fs.ErrNotExist) {
			err = errors.Join(err, missing)
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), ".") {
				err = errors.Join(err, disk.RemoveAll(filepath.Join(r.dir, kind, e.Name())))
			}
		}
	}
	return err
}

// Snapshot saves the state of a model after request seq, as fill writes it, and removes earlier ones.
func (r *Run) Snapshot(seq int64, fill func(dir string) error) error {
	parent := filepath.Join(r.dir, states)
	path := filepath.Join(parent, strconv.FormatInt(seq, 10))
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := disk.MkdirAll(parent); err != nil {
		return err
	}
	if err := atomicfile.WriteDir(path, fill); err != nil {
		return err
	}
	entries, err := os.ReadDir(parent)
	for _, e := range entries {
		if e.Name() != filepath.Base(path) {
			err = errors.Join(err, disk.RemoveAll(filepath.Join(parent, e.Name())))
		}
	}
	return err
}

// State is the folder of the last Snapshot, and its request; −1 if there is none.
func (r *Run) State() (seq int64, dir string, err error) {
	parent := filepath.Join(r.dir, states)
	entries, err := os.ReadDir(parent)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	seq = -1
	for _, e := range entries {
		if n, err := strconv.ParseInt(e.Name(), 10, 64); err == nil && n > seq {
			seq, dir = n, filepath.Join(parent, e.Name())
		}
	}
	return seq, dir, err
}

// Forget removes the snapshot of a model whose training has ended. Checkpoints stay.
func (r *Run) Forget() error { return disk.RemoveAll(filepath.Join(r.dir, states)) }
