// Package store persists what a Tinker client was told is done: sessions, models with a journal of accepted
// requests, and checkpoints. When a function returns, what it wrote survives a power cut. It knows names and files; what a
// request means is decided elsewhere.
//
//	secret                       signs the addresses of archives
//	sessions/ID.json
//	samplers/ID.json             what a sampling session samples from
//	runs/ID/run.json             a model: its base, rank and targets
//	runs/ID/journal              accepted requests, and their results
//	runs/ID/state/SEQ            snapshot after request SEQ, with the optimizer's state: a replay of the journal starts here
//	runs/ID/weights/NAME         checkpoints with the optimizer's state
//	runs/ID/sampler_weights/NAME checkpoints of the adapter alone
//	runs/ID/moments/SEQ          unnamed ones, each for one sampling session
//
// Names from clients are checked before they become paths.
package store

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/disk"
)

// Store is a directory that one server uses exclusively.
type Store struct {
	dir    string
	lock   *os.File
	room   room
	expiry expiry
	Secret []byte // random, of this store
}

var folders = []string{"sessions", "samplers", "runs"}

// Open opens a store, creating the directory if necessary, and locks it.
func Open(dir string) (*Store, error) {
	if err := isStore(dir); err != nil {
		return nil, err
	}
	for _, sub := range folders {
		if err := disk.MkdirAll(filepath.Join(dir, sub)); err != nil {
			return nil, badinput.Errorf("store: %w", err)
		}
	}
	lock, err := claim(dir, os.O_CREATE)
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir, lock: lock, expiry: expiry{due: map[*Run]time.Time{}, sooner: make(chan struct{}, 1)}}
	if err = atomicfile.RemoveStale(dir); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	if s.Secret, err = secret(filepath.Join(dir, "secret")); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return s, nil
}

// claim locks a directory for one server.
func claim(dir string, create int) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(dir, ".lock"), create|os.O_RDWR, 0o600)
	if err != nil {
		return nil, badinput.Errorf("store: %w", err)
	}
	if !disk.Lock(lock) {
		return nil, errors.Join(badinput.Errorf("store %s: another server uses it; stop that one, or give this one a --store of its own", dir),
			lock.Close())
	}
	return lock, nil
}

// Close releases the directory.
func (s *Store) Close() error { return s.lock.Close() }

func secret(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err == nil && len(text) == 64 {
		return hex.DecodeString(string(text))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	key := make([]byte, 32)
	rand.Read(key) // never fails
	if err := atomicfile.WriteBytes(path, hex.AppendEncode(nil, key)); err != nil {
		return nil, err
	}
	return key, os.Chmod(path, 0o600)
}

// NewID is a random ID that nobody can guess, and safe as a file name.
func NewID() string {
	var b [12]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// CheckName refuses names with characters other than letters, digits, dot, dash and underscore.
func CheckName(key, name string) error {
	if plainName.MatchString(name) {
		return nil
	}
	return badinput.Errorf("%s: found %.140q, expected up to 128 letters, digits, dots, dashes and underscores, a letter or digit first",
		key, name)
}

// file is the path of a checked name. It replaces the colons in IDs of models.
func (s *Store) file(parts ...string) (string, error) {
	path := s.dir
	for _, p := range parts {
		p = strings.ReplaceAll(p, ":", "_")
		if !plainName.MatchString(p) {
			return "", fs.ErrNotExist
		}
		path = filepath.Join(path, p)
	}
	return path, nil
}

// Put stores a value under a kind and a name.
func (s *Store) Put(kind, name string, v any) error {
	path, err := s.file(kind, name)
	if err != nil {
		return err
	}
	return writeJSON(path+".json", v)
}

// Get reads a value; the error is fs.ErrNotExist if there is none.
func (s *Store) Get(kind, name string, v any) error {
	path, err := s.file(kind, name)
	if err != nil {
		return err
	}
	return readJSON(path+".json", v)
}

// Names lists the names of a kind that begin with a prefix without underscores, sorted.
func (s *Store) Names(kind, prefix string) (all []string, err error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, kind))
	for _, e := range entries {
		name, whole := strings.CutSuffix(strings.ReplaceAll(e.Name(), "_", ":"), ".json")
		if whole && strings.HasPrefix(name, prefix) {
			all = append(all, name)
		}
	}
	return all, err
}

// Each calls each with the text of every value of a kind.
func (s *Store) Each(kind string, each func(text []byte) error) error {
	dir := filepath.Join(s.dir, kind)
	if err := atomicfile.RemoveStale(dir); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		text, err := os.ReadFile(path)
		if err == nil {
			err = each(text)
		}
		if err != nil {
			return badinput.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

func writeJSON(path string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(path, append(text, '\n'))
}

func readJSON(path string, v any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return badinput.Errorf("%s: %w", path, err)
	}
	return nil
}
