package openai

import (
	"strings"

	"github.com/seed-7879b91d/grpo/data/tokenizer"
)

// textReleaser turns the tokens of a completion into text that can be shown: no partial characters, and nothing that could be
// the beginning of a stop string.
type textReleaser struct {
	stream *tokenizer.Stream
	marks  map[int32]string // control tokens that the reader of the text needs
	stops  []string

	held    string // text that is not shown yet
	shown   int    // bytes of the text before held
	stopped bool   // at a stop string: nothing more is shown
}

// newSpeech starts a text.
func newSpeech(tok *tokenizer.Tokenizer, marks map[int32]string, stops []string) *textReleaser {
	return &textReleaser{stream: tok.NewStream(true), marks: marks, stops: stops}
}

// said is the number of bytes so far, shown or held.
func (s *textReleaser) said() int { return s.shown + len(s.held) }

// push adds a token and returns the text that can now be shown.
func (s *textReleaser) push(token int32) string {
	if s.stopped {
		return ""
	}
	text := s.marks[token]
	if text != "" {
		text = s.stream.Flush() + text
	} else {
		text = s.stream.Push(token)
	}
	s.held += text
	if s.cut() {
		return s.show(len(s.held))
	}
	return s.show(len(s.held) - longestStart(s.held, s.stops))
}

// end returns the rest. A partial character becomes U+FFFD, which may complete a stop string.
func (s *textReleaser) end() string {
	if s.stopped {
		return ""
	}
	s.held += s.stream.Flush()
	s.cut()
	return s.show(len(s.held))
}

// cut drops the text from the first stop string on, and reports whether there is one.
func (s *textReleaser) cut() bool {
	if at := firstStop(s.held, s.stops); at >= 0 {
		s.held, s.stopped = s.held[:at], true
	}
	return s.stopped
}

func (s *textReleaser) show(n int) string {
	text := s.held[:n]
	s.held, s.shown = s.held[n:], s.shown+n
	return text
}

// firstStop finds the first stop string; -1 if there is none.
func firstStop(text string, stops []string) int {
	first := -1
	for _, stop := range stops {
		if at := strings.Index(text, stop); at >= 0 && (first < 0 || at < first) {
			first = at
		}
	}
	return first
}

// longestStart is the length of the longest suffix of a text that one of the strings begins with.
func longestStart(text string, of []string) int {
	longest := 0
	for _, s := range of {
		for n := min(len(s)-1, len(text)); n > longest; n-- {
			if strings.HasSuffix(text, s[:n]) {
				longest = n
				break
			}
		}
	}
	return longest
}
