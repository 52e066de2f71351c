package gate

import (
	"bufio"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/openfile"
)

// Keys are the keys of those who may ask, stored as their SHA-256.
type Keys struct {
	path string
	list atomic.Pointer[[]key]
}

type key struct {
	name  string
	admin bool // may load and unload adapters
	sum   [sha256.Size]byte
}

// admin, after a key's name in the file, lets it load and unload adapters.
const admin = "admin"

// ReadKeys reads a file of lines "SHA-256 NAME" or "SHA-256 NAME admin"; empty lines and those that start with # are ignored.
func ReadKeys(path string) (*Keys, error) {
	k := &Keys{path: path}
	if err := k.Reread(); err != nil {
		return nil, err
	}
	return k, nil
}

// Reread reads the file again. If it has an error, the keys stay as they are.
func (k *Keys) Reread() error {
	list, err := readKeys(k.path)
	if err == nil {
		k.list.Store(&list)
	}
	return err
}

func readKeys(path string) (list []key, err error) {
	file, err := openfile.Open(path)
	if err != nil {
		return nil, badinput.Errorf("%w; grpo serve --new-key NAME prints a line of such a file", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	n := 1
	for ; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		known, ok := parseKey(line)
		if !ok {
			return nil, badinput.Errorf("%s:%d: expected the SHA-256 of a key, a name, and %q where it may load adapters; "+
				"grpo serve --new-key NAME prints such a line", path, n, admin)
		}
		for _, other := range list {
			if other.name == known.name {
				return nil, badinput.Errorf("%s:%d: there is another key named %s; give one of them another name", path, n, known.name)
			}
			if other.sum == known.sum { // or its name and rights would be ambiguous
				return nil, badinput.Errorf("%s:%d: %s has the key of %s; make another one with grpo serve --new-key %s", path, n,
					known.name, other.name, known.name)
			}
		}
		list = append(list, known)
	}
	if err := lines.Err(); err != nil {
		return nil, badinput.Errorf("%s:%d: %w; expected a file of lines as grpo serve --new-key NAME prints them", path, n, err)
	}
	if len(list) == 0 {
		return nil, badinput.Errorf("%s: no keys; grpo serve --new-key NAME prints a line to put there", path)
	}
	return list, nil
}

// parseKey parses a line of the file.
func parseKey(line string) (k key, ok bool) {
	parts := strings.Fields(line)
	if k.admin = len(parts) == 3 && parts[2] == admin; len(parts) != 2 && !k.admin {
		return k, false
	}
	sum, err := hex.DecodeString(parts[0])
	if err != nil || len(sum) != sha256.Size || checkKeyName(parts[1]) != nil {
		return k, false
	}
	k.name, k.sum = parts[1], [sha256.Size]byte(sum)
	return k, true
}

// find looks a key up; the result has no name if it is unknown. It takes constant time, so that timing tells nothing about the
// keys.
func (k *Keys) find(shown string) (found key) {
	sum := sha256.Sum256([]byte(shown))
	for _, known := range *k.list.Load() {
		if subtle.ConstantTimeCompare(sum[:], known.sum[:]) == 1 {
			found = known
		}
	}
	return found
}

// Contains reports whether a key is one of them.
func (k *Keys) Contains(shown string) bool { return k.find(shown).name != "" }

func checkKeyName(name string) error {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.@", r)
	}
	if name == "" || len(name) > 64 || strings.ContainsFunc(name, func(r rune) bool { return !plain(r) }) {
		return badinput.Errorf("the name of a key: found %q, expected up to 64 letters, digits, and - _ . @", name)
	}
	return nil
}

// NewKey makes a random key, and the line for it in the file.
func NewKey(name string) (key, line string, err error) {
	if err := checkKeyName(name); err != nil {
		return "", "", err
	}
	key = "sk-" + rand.Text()
	return key, fmt.Sprintf("%x %s", sha256.Sum256([]byte(key)), name), nil
}
