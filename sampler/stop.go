package sampler

import "strings"

// TextStream decodes tokens to text incrementally.
type TextStream interface {
	Push(token int32) string
}

// StopStrings makes a Params.Watch that ends a completion once its text contains one of the strings.
// open makes the TextStream of a completion.
func StopStrings(stops []string, open func() TextStream) func() func(token int32) bool {
	longest := 0
	for _, s := range stops {
		longest = max(longest, len(s))
	}
	if longest == 0 {
		return nil
	}
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
