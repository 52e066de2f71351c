package tools

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// address is the address of an object in the output of repr, which differs from run to run.
var address = regexp.MustCompile(`\bat 0x[0-9a-fA-F]{6,16}\b`)

// steady is a text without what differs from run to run, in valid UTF-8.
func steady(text string) string {
	return strings.ToValidUTF8(address.ReplaceAllString(text, "at 0x…"), "\ufffd")
}

// room is the most bytes of the line that says how much is left out.
const room = 40

// fit cuts a text to at most n bytes: it keeps the beginning and the end, and says between them how much is left out.
func fit(text string, n int) string {
	if len(text) <= n {
		return text
	}
	head := max(n-room, 0) * 2 / 3
	tail := max(n-room, 0) - head
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	at := len(text) - tail
	for at < len(text) && !utf8.RuneStart(text[at]) {
		at++
	}
	return join(text[:head], int64(at-head), text[at:])
}

// Fit cuts a text to at most n bytes, as the tools cut theirs, and makes it valid UTF-8.
func Fit(text string, n int) string { return fit(strings.ToValidUTF8(text, "\ufffd"), n) }

func join(head string, left int64, tail string) string {
	if left == 0 {
		return head + tail
	}
	return fmt.Sprintf("%s\n… %d bytes left out …\n%s", strings.TrimRight(head, "\n"), left, strings.TrimLeft(tail, "\n"))
}

// excerpt is an Excerpt as a text of at most n bytes.
func excerpt(e sandbox.Excerpt, n int) string {
	if e.LeftOut == 0 {
		return fit(string(e.Head)+string(e.Tail), n)
	}
	head, tail := string(e.Head), string(e.Tail)
	left := e.LeftOut + int64(len(head)+len(tail))
	head = strings.ToValidUTF8(head[:min(len(head), max(n-room, 0)*2/3)], "")
	tail = strings.ToValidUTF8(tail[len(tail)-min(len(tail), max(n-room, 0)/3):], "")
	return join(head, left-int64(len(head)+len(tail)), tail)
}

// oneLine is a text on one line, cut to about n bytes: a longer one keeps its beginning and its end.
func oneLine(text string, n int) string {
	text = strings.NewReplacer("\n", " ", "\r", " ").Replace(steady(text))
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n*2/3], "") + "…" + strings.ToValidUTF8(text[len(text)-n/3:], "")
}

// block is a text with a line break at its end, or "".
func block(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}
