package display

import (
	"os"
	"path/filepath"
	"strings"
)

// ShellQuote quotes a path for a shell, if necessary.
func ShellQuote(path string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r > 127 || strings.ContainsRune("%+,-./:=@_^#", r)
	}
	if path != "" && path[0] != '#' && strings.IndexFunc(path, func(r rune) bool { return !plain(r) }) < 0 {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// ExpandTilde is the meaning of a path that begins with ~, as a word to type; "" for any other path. Shells expand it, but not in a
// settings file, after --out=, or in quotes.
func ExpandTilde(path string) string {
	rest, tilde := strings.CutPrefix(path, "~")
	if !tilde || rest != "" && rest[0] != '/' {
		return ""
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "DIR"
	}
	return ShellQuote(filepath.Join(home, rest))
}

// TildeHint says what to type instead of a path that begins with ~, after the flag or key that it is given by; "" for any other path.
func TildeHint(key, path string) string {
	home := ExpandTilde(path)
	if home == "" {
		return ""
	}
	return "no shell has put your home directory in the place of ~; type " + key + home + ", or " + key + ShellQuote("./"+path) +
		" for a folder that is called so"
}
