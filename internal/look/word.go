package look

import "strings"

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
