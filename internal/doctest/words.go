package doctest

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// assignment is a variable set before a command.
var assignment = regexp.MustCompile(`^[A-Z_]+=`)

// SplitCommands splits a text into commands and words as a shell does: quotes, comments, continuation lines, pipes, command substitutions,
// variables before a command, redirections. Variables and redirections are left out.
func SplitCommands(text string) (commands [][]string, err error) {
	r := reader{text: text}
	for r.at = 0; r.at < len(text); r.at++ {
		r.take(text[r.at])
	}
	if r.endCommand(); r.quote != 0 {
		return nil, fmt.Errorf("a quote is not closed")
	}
	return r.commands, nil
}

// reader is the state of SplitCommands.
type reader struct {
	text     string
	at       int
	commands [][]string
	command  []string
	word     bytes.Buffer
	inWord   bool
	quote    byte
}

func (r *reader) take(c byte) {
	switch {
	case r.quote == '"' && c == '\\' && r.at+1 < len(r.text):
		r.at++
		r.word.WriteByte(r.text[r.at])
	case r.quote != 0 && c == r.quote:
		r.quote = 0
	case r.quote != 0:
		r.word.WriteByte(c)
	case c == '\'' || c == '"':
		r.quote, r.inWord = c, true
	case c == '\\' && r.at+1 < len(r.text):
		if r.at++; r.text[r.at] != '\n' {
			r.word.WriteByte(r.text[r.at])
			r.inWord = true
		}
	case c == '$' && strings.HasPrefix(r.text[r.at:], "$("):
		inner := r.text[r.at : r.at+closing(r.text[r.at:])]
		r.word.WriteString(inner)
		r.inWord = true
		r.at += len(inner) - 1
	case c == '#' && !r.inWord:
		r.at += len(comment(r.text[r.at:])) - 1
	case c == '\n' || c == '|' || c == ';' || c == '&':
		r.endCommand()
	case c == ' ' || c == '\t':
		r.endWord()
	default:
		r.word.WriteByte(c)
		r.inWord = true
	}
}

func (r *reader) endWord() {
	if w := r.word.String(); r.inWord && (len(r.command) > 0 || !assignment.MatchString(w)) {
		r.command = append(r.command, w)
	}
	r.word.Reset()
	r.inWord = false
}

func (r *reader) endCommand() {
	if r.endWord(); len(r.command) > 0 {
		if at := slices.IndexFunc(r.command, func(w string) bool { return strings.HasPrefix(w, ">") || w == "<" }); at > 0 {
			r.command = r.command[:at]
		}
		r.commands = append(r.commands, r.command)
	}
	r.command = nil
}

// closing is the length of "$(" up to the matching parenthesis.
func closing(text string) int {
	depth := 0
	for i, c := range []byte(text) {
		switch c {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(text)
}

// comment is a text up to the end of its line.
func comment(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// statements are the lines of a script, each with its continuation lines: after a backslash, in an open quote, or in a loop.
func statements(script string) (found []string) {
	from, quote := 0, byte(0)
	start := true // at the start of a word, where a comment may begin
	for i := 0; i < len(script); i++ {
		c := script[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case c == '\\' && quote != '\'':
			i++
		case quote != 0:
		case c == '\'' || c == '"':
			quote = c
		case c == '#' && start:
			i += len(comment(script[i:])) - 1
		case c == '\n':
			found = append(found, script[from:i])
			from = i + 1
		}
		start = c == ' ' || c == '\n' || c == '\t'
	}
	return joinLoops(append(found, script[from:]))
}

// joinLoops joins the lines of a loop, from its first do to its last done.
func joinLoops(lines []string) (found []string) {
	open := 0
	for _, line := range lines {
		if open > 0 {
			found[len(found)-1] += "\n" + line
		} else {
			found = append(found, line)
		}
		commands, _ := SplitCommands(line) // a line that cannot be parsed opens no loop
		for _, c := range commands {
			switch c[0] {
			case "do":
				open++
			case "done":
				open--
			}
		}
	}
	return found
}
