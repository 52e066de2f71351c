// Package store keeps what a Tinker client was told is done: sessions, models with a journal of the requests that were
// accepted, and checkpoints. What a function wrote survives a power cut when it returns. It knows names and files; what a
// request means is decided elsewhere.
//
//	secret                       signs the addresses of archives
//	sessions/ID.json
//	samplers/ID.json             what a sampling session speaks with
//	runs/ID/run.json             a model: its base, rank and targets
//	runs/ID/journal              accepted requests, and what became of them
//	runs/ID/state/SEQ            the model after request SEQ, with its optimizer: where a replay of the journal begins
//	runs/ID/weights/NAME         checkpoints with the optimizer's state
//	runs/ID/sampler_weights/NAME checkpoints of the adapter alone
//	runs/ID/moments/SEQ          the same without a name, for one sampling session
//
// No name that a client gave becomes a path before it is known to be a plain one.
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

// Store is a directory that one server has to itself.
type Store struct {
	dir    string
	lock   *os.File
	room   room
	expiry expiry
	Secret []byte // of this store alone
}

var folders = []string{"sessions", "samplers", "runs"}

// Open makes the directory if need be, and claims it.
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
	if err = atomicfile.Sweep(dir); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	if s.Secret, err = secret(filepath.Join(dir, "secret")); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return s, nil
}

// claim takes the lock of a directory, as one server may.
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

// Close gives the directory free.
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
	rand.Read(key) // it never fails
	if err := atomicfile.WriteBytes(path, hex.AppendEncode(nil, key)); err != nil {
		return nil, err
	}
	return key, os.Chmod(path, 0o600)
}

// NewID is a name that nobody can guess, and that is plain.
func NewID() string {
	var b [12]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

var plain = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// CheckName refuses a name that is not plain: letters, digits, dot, dash and underscore.
func CheckName(key, name string) error {
	if plain.MatchString(name) {
		return nil
	}
	return badinput.Errorf("%s: found %.140q, expected up to 128 letters, digits, dots, dashes and underscores, a letter or digit first",
		key, name)
}

// file is the path of a name of ours or of one that was checked. The names of models have colons.
func (s *Store) file(parts ...string) (string, error) {
	path := s.dir
	for _, p := range parts {
		p = strings.ReplaceAll(p, ":", "_")
		if !plain.MatchString(p) {
			return "", fs.ErrNotExist
		}
		path = filepath.Join(path, p)
	}
	return path, nil
}

// Put keeps a value under a kind and a name.
func (s *Store) Put(kind, name string, v any) error {
	path, err := s.file(kind, name)
	if err != nil {
		return err
	}
	return writeJSON(path+".json", v)
}

// Get reads what Put kept; the error is fs.ErrNotExist where nothing was.
func (s *Store) Get(kind, name string, v any) error {
	path, err := s.file(kind, name)
	if err != nil {
		return err
	}
	return readJSON(path+".json", v)
}

// Names are those that Put was given of a kind and that begin so, which have no underscore, in order.
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

// All calls each with the text of every value of a kind.
func (s *Store) All(kind string, each func(text []byte) error) error {
	dir := filepath.Join(s.dir, kind)
	if err := atomicfile.Sweep(dir); err != nil {
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
