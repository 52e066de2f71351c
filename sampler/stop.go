package sampler

import (
	"strings"

	"github.com/seed-7879b91d/grpo/internal/precondition"
)

// TextStream decodes tokens to text incrementally. A tokenizer of package data/tokenizer opens one.
type TextStream interface {
	Push(token int32) string // the text that the token completes, "" in the middle of a character
}

// StopStrings makes a Params.Watch that ends a completion once its text contains one of the strings. The token that completes the string
// is part of the completion. Empty strings are passed over; if there are no others, the result is nil. open makes the TextStream of a
// completion.
func StopStrings(stops []string, open func() TextStream) func() func(token int32) bool {
	longest := 0
	for _, s := range stops {
		longest = max(longest, len(s))
	}
	if longest == 0 {
		return nil
	}
	precondition.NotNil("sampler.StopStrings", "open", open)
	return func() func(int32) bool {
		stream, tail := open(), ""
		return func(token int32) bool {
			tail += stream.Push(token)
			for _, s := range stops {
				if s != "" && strings.Contains(tail, s) {
					return true
				}
			}
			tail = tail[max(0, len(tail)-longest):] // a stop string may straddle tokens
			return false
		}
	}
}
