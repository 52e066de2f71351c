package look

import (
	"os"
	"path/filepath"
	"strings"
)

// Word is a path as it is typed into a shell as one word: as it is, where no shell takes it for anything else, and otherwise in quotes.
func Word(path string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r > 127 || strings.ContainsRune("%+,-./:=@_^#", r)
	}
	if path != "" && path[0] != '#' && strings.IndexFunc(path, func(r rune) bool { return !plain(r) }) < 0 {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// Home is what is meant by a path that begins with ~, as a word that can be typed; "" for any other path. A shell puts the home directory
// there, but none does in a file of settings, behind --out=, or in quotes.
func Home(path string) string {
	rest, tilde := strings.CutPrefix(path, "~")
	if !tilde || rest != "" && rest[0] != '/' {
		return ""
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "DIR"
	}
	return Word(filepath.Join(home, rest))
}

// Unread says of a path that begins with ~ what to type in its place, behind the flag or key that it is given by; "" for any other path.
func Unread(key, path string) string {
	home := Home(path)
	if home == "" {
		return ""
	}
	return "no shell has put your home directory in the place of ~; type " + key + home + ", or " + key + Word("./"+path) +
		" for a folder that is called so"
}
