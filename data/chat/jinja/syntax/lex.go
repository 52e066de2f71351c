package syntax

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind int

const (
	tokenText  tokenKind = iota // outside of tags
	tokenPrint                  // {{
	tokenBlock                  // {%
	tokenEnd                    // }} or %}
	tokenName
	tokenString
	tokenInt
	tokenFloat
	tokenOp
	tokenEOF
)

type token struct {
	kind tokenKind
	text string // of a string literal, its value
	line int
}

// lexer splits a template into tokens like Jinja with trim_blocks and lstrip_blocks: it drops the line feed after a block or a comment,
// and the white space before one at the start of a line.
type lexer struct {
	source    string
	at        int
	line      int
	lineStart bool // the last token ended a line
	tokens    []token
	err       error
}

func lex(source string) ([]token, error) {
	source = strings.ReplaceAll(strings.ReplaceAll(source, "\r\n", "\n"), "\r", "\n")
	l := &lexer{source: strings.TrimSuffix(source, "\n"), line: 1, lineStart: true}
	for l.at < len(l.source) && l.err == nil {
		l.next()
	}
	l.add(tokenEOF, "")
	return l.tokens, l.err
}

func (l *lexer) add(kind tokenKind, text string) {
	l.tokens = append(l.tokens, token{kind, text, l.line})
}

func (l *lexer) fail(format string, args ...any) {
	if l.err == nil {
		l.err = fmt.Errorf("line %d: "+format, append([]any{l.line}, args...)...)
	}
}

// advance skips n bytes, and counts lines.
func (l *lexer) advance(n int) {
	if n > 0 {
		passed := l.source[l.at : l.at+n]
		l.line += strings.Count(passed, "\n")
		l.lineStart = strings.HasSuffix(passed, "\n")
		l.at += n
	}
}

// next reads the text up to a tag, and the tag.
func (l *lexer) next() {
	rest := l.source[l.at:]
	i := tagAt(rest)
	if i < 0 {
		l.add(tokenText, rest)
		l.advance(len(rest))
		return
	}
	text, kind := rest[:i], rest[i+1]
	sign := byte(0)
	if i+2 < len(rest) && (rest[i+2] == '-' || rest[i+2] == '+') && !(rest[i+2] == '+' && kind == '{') {
		sign = rest[i+2]
	}
	switch {
	case sign == '-':
		text = strings.TrimRightFunc(text, IsSpace)
	case sign == 0 && kind != '{':
		begin := strings.LastIndexByte(text, '\n') + 1
		if (begin > 0 || l.lineStart) && strings.TrimLeftFunc(text[begin:], IsSpace) == "" {
			text = text[:begin]
		}
	}
	if text != "" {
		l.add(tokenText, text)
	}
	l.advance(i + 2)
	if sign != 0 {
		l.advance(1)
	}
	switch kind {
	case '#':
		l.comment()
	case '{':
		l.add(tokenPrint, "")
		l.inside("}}")
	default:
		if !l.raw() {
			l.add(tokenBlock, "")
			l.inside("%}")
		}
	}
}

// IsSpace is Python's str.isspace.
func IsSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// tagAt is the index of the first tag.
func tagAt(s string) int {
	for i := 0; i+1 < len(s); i++ {
		if s[i] == '{' && (s[i+1] == '{' || s[i+1] == '%' || s[i+1] == '#') {
			return i
		}
	}
	return -1
}

func (l *lexer) comment() {
	end := strings.Index(l.source[l.at:], "#}")
	if end < 0 {
		l.fail("a comment {# has no end #}")
		return
	}
	sign := byte(0)
	if end > 0 {
		sign = l.source[l.at+end-1]
	}
	l.advance(end)
	l.closeTag(2, sign, true)
}

// closeTag skips the end of a tag, and the white space that it strips.
func (l *lexer) closeTag(n int, sign byte, block bool) {
	l.advance(n)
	rest := l.source[l.at:]
	switch {
	case sign == '-':
		l.advance(len(rest) - len(strings.TrimLeftFunc(rest, IsSpace)))
	case sign != '+' && block && strings.HasPrefix(rest, "\n"):
		l.advance(1)
	}
}

// raw reads {% raw %}…{% endraw %}.
func (l *lexer) raw() bool {
	rest := l.source[l.at:]
	name := strings.TrimLeftFunc(rest, IsSpace)
	if !strings.HasPrefix(name, "raw") {
		return false
	}
	tail := strings.TrimLeftFunc(name[len("raw"):], IsSpace)
	sign := byte(0)
	if strings.HasPrefix(tail, "-") {
		sign, tail = '-', tail[1:]
	}
	if !strings.HasPrefix(tail, "%}") {
		return false
	}
	l.advance(len(rest) - len(tail))
	l.closeTag(2, sign, false)
	body := l.source[l.at:]
	for from := 0; ; {
		i := strings.Index(body[from:], "{%")
		if i < 0 {
			l.fail("{%% raw %%} has no {%% endraw %%}")
			return true
		}
		begin := from + i
		tag := body[begin+2:]
		before := strings.TrimLeft(tag, "-+")
		name := strings.TrimLeftFunc(before, IsSpace)
		tail := strings.TrimLeftFunc(strings.TrimPrefix(name, "endraw"), IsSpace)
		end := strings.TrimLeft(tail, "-+")
		if !strings.HasPrefix(name, "endraw") || !strings.HasPrefix(end, "%}") {
			from = begin + 2
			continue
		}
		text := body[:begin]
		if strings.HasPrefix(tag, "-") {
			text = strings.TrimRightFunc(text, IsSpace)
		} else if at := strings.LastIndexByte(text, '\n') + 1; !strings.HasPrefix(tag, "+") && (at > 0 || l.lineStart) &&
			strings.TrimLeftFunc(text[at:], IsSpace) == "" {
			text = text[:at]
		}
		l.add(tokenText, text)
		sign := byte(0)
		if len(tail) > len(end) {
			sign = tail[0]
		}
		l.advance(len(body) - len(end))
		l.closeTag(2, sign, true)
		return true
	}
}

// operators, longest first.
var operators = []string{
	"//", "**", "==", "!=", ">=", "<=",
	"+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",",
}

// inside reads the tokens of a tag up to its end.
func (l *lexer) inside(end string) {
	open := 0
	for l.err == nil {
		rest := l.source[l.at:]
		if rest == "" {
			l.fail("a tag has no end %s", end)
			return
		}
		if open == 0 {
			for _, sign := range []string{"", "-", "+"} {
				if strings.HasPrefix(rest, sign+end) && !(sign == "+" && end == "}}") {
					l.add(tokenEnd, "")
					l.closeTag(len(sign)+2, (sign + "\x00")[0], end == "%}")
					return
				}
			}
		}
		r, n := utf8.DecodeRuneInString(rest)
		switch {
		case IsSpace(r):
			l.advance(n)
		case r >= '0' && r <= '9':
			l.number(rest)
		case r == '_' || unicode.IsLetter(r):
			name := rest[:len(rest)-len(strings.TrimLeftFunc(rest, isWord))]
			l.add(tokenName, name)
			l.advance(len(name))
		case r == '\'' || r == '"':
			l.text(rest)
		default:
			open += l.operator(rest)
			if open < 0 {
				l.fail("a bracket is closed that was not opened")
			}
		}
	}
}

func isWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) }

// operator reads an operator, and keeps track of open brackets.
func (l *lexer) operator(rest string) int {
	for _, op := range operators {
		if strings.HasPrefix(rest, op) {
			l.add(tokenOp, op)
			l.advance(len(op))
			switch op {
			case "(", "[", "{":
				return 1
			case ")", "]", "}":
				return -1
			}
			return 0
		}
	}
	l.fail("found %q in a tag", rest[:min(len(rest), 1)])
	return 0
}

func (l *lexer) number(rest string) {
	isDigit := func(r rune) bool { return r >= '0' && r <= '9' || r == '_' }
	digits := func(s string) int { return len(s) - len(strings.TrimLeftFunc(s, isDigit)) }
	n, kind := digits(rest), tokenInt
	if n+1 < len(rest) && rest[n] == '.' && digits(rest[n+1:]) > 0 {
		n, kind = n+1+digits(rest[n+1:]), tokenFloat
	}
	if n < len(rest) && (rest[n] == 'e' || rest[n] == 'E') {
		m := n + 1
		if m < len(rest) && (rest[m] == '+' || rest[m] == '-') {
			m++
		}
		if d := digits(rest[m:]); d > 0 {
			n, kind = m+d, tokenFloat
		}
	}
	if kind == tokenInt && len(rest) > 1 && rest[0] == '0' && strings.ContainsRune("xXoObB", rune(rest[1])) {
		n = 2 + len(rest[2:]) - len(strings.TrimLeftFunc(rest[2:], isWord))
	}
	l.add(kind, strings.ReplaceAll(rest[:n], "_", ""))
	l.advance(n)
}

// text reads a string literal.
func (l *lexer) text(rest string) {
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case rest[0]:
			text, err := unescape(rest[1:i])
			if err != nil {
				l.fail("%v", err)
			}
			l.add(tokenString, text)
			l.advance(i + 1)
			return
		}
	}
	l.fail("a string has no end %c", rest[0])
}
