package reward

import "strings"

// Extract returns the program in a completion: the last fenced code block outside think tags, whatever its info string. There is
// none if the text has no block, if the last one was never closed, or if it is blank.
//
// A fence or tag inside a string literal belongs to the program. To recognise one, the lines of a block are read as Python; if the
// block ends inside a string it was not Python after all, and the text is read again by its fences alone.
func Extract(completion string) (code string, ok bool) {
	s := blocks{python: true}
	s.read(completion)
	if s.quotes.open != "" {
		s = blocks{}
		s.read(completion)
	}
	code = s.code.String()
	return code, s.closed && strings.TrimSpace(code) != ""
}

const thinkStart, thinkEnd = "<think>", "</think>"

// blocks reads the fenced code blocks of a text and keeps the last.
type blocks struct {
	python bool // follow string literals
	spoken bool // no thoughts that the prompt began are read any more
	quotes quotes
	fence  fence // the one that opened the block being read
	open   bool
	closed bool // code is a whole block
	code   strings.Builder
}

func (b *blocks) read(text string) {
	for text != "" {
		line, rest, _ := strings.Cut(text, "\n")
		thought, _, ends := strings.Cut(line, thinkEnd)
		b.spoken = b.spoken || strings.Contains(thought, thinkStart)
		if ends && !b.spoken && !b.quoted(thought) {
			*b, text = blocks{python: b.python, spoken: true}, text[len(thought)+len(thinkEnd):]
			continue
		}
		if at := strings.Index(line, thinkStart); at >= 0 && !b.open {
			_, text, _ = strings.Cut(text[at:], thinkEnd)
			continue
		}
		b.line(strings.TrimSuffix(line, "\r"))
		text = rest
	}
}

// quoted reports whether the position after the beginning of a line is in a string literal or a comment.
func (b *blocks) quoted(before string) bool {
	q := b.quotes
	return b.open && b.python && strings.TrimSpace(before) != "" && q.backticks(before+"```", 3) < 0
}

func (b *blocks) line(line string) {
	fence, isFence := parseFence(line)
	if !b.open {
		if isFence {
			b.start(fence)
		}
		return
	}
	inString, backticks := b.quotes.open != "", -1
	if b.python {
		backticks = b.quotes.backticks(line, b.fence.width)
	}
	switch {
	case inString:
		b.add(line)
	case isFence && fence.closes(b.fence):
		b.end()
	case isFence && fence.char == '`' && b.fence.char == '`' && fence.width >= b.fence.width:
		b.start(fence) // backticks are no Python: the block before was never closed, and this is the next
	case backticks >= 0 && b.fence.char == '`':
		b.add(line[:backticks])
		b.end()
	default:
		b.add(line)
	}
}

func (b *blocks) start(f fence) {
	b.fence, b.open, b.closed, b.quotes = f, true, false, quotes{}
	b.code.Reset()
}

func (b *blocks) end() { b.open, b.closed, b.quotes = false, true, quotes{} }

// add takes one line of the program, less the indentation of a fence that stands in a list.
func (b *blocks) add(line string) {
	line = line[min(b.fence.indent, len(line)-len(strings.TrimLeft(line, " \t"))):]
	b.code.WriteString(line)
	b.code.WriteByte('\n')
}

// fence is a line that opens or closes a block.
type fence struct {
	char   byte // '`' or '~'
	width  int
	indent int
	info   string
}

func parseFence(line string) (f fence, ok bool) {
	text := strings.TrimLeft(line, " \t")
	if !strings.HasPrefix(text, "```") && !strings.HasPrefix(text, "~~~") {
		return f, false
	}
	f.char, f.indent = text[0], len(line)-len(text)
	info := strings.TrimLeft(text, text[:1])
	f.width, f.info = len(text)-len(info), strings.TrimSpace(info)
	// ```like this``` is code within a sentence.
	return f, f.char == '~' || !strings.Contains(info, "`")
}

func (f fence) closes(opened fence) bool {
	return f.char == opened.char && f.width >= opened.width && f.info == ""
}

// quotes follows Python's string literals from line to line.
type quotes struct {
	open string // the triple quotes that end the string begun on an earlier line, or ""
}

// backticks reads one line and returns where the first run of at least n backticks stands that is in
// no string and no comment, or -1. After such a run the line is not Python any more.
func (q *quotes) backticks(line string, n int) int {
	for i := 0; i < len(line); {
		rest := line[i:]
		switch {
		case q.open != "" && rest[0] == '\\':
			i += 2
		case q.open != "" && strings.HasPrefix(rest, q.open):
			i += len(q.open)
			q.open = ""
		case q.open != "":
			i++
		case rest[0] == '#':
			return -1
		case strings.HasPrefix(rest, `"""`), strings.HasPrefix(rest, "'''"):
			q.open = rest[:3]
			i += 3
		case rest[0] == '"', rest[0] == '\'':
			q.open = rest[:1]
			i++
		case rest[0] == '`':
			width := len(rest) - len(strings.TrimLeft(rest, "`"))
			if width >= n {
				return i
			}
			i += width
		default:
			i++
		}
	}
	if len(q.open) == 1 {
		q.open = "" // a string in single quotes ends with its line
	}
	return -1
}
