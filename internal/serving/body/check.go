package body

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
)

// Check refuses JSON that encoding/json would silently decode to something else: of a duplicate key it keeps the last value, and it
// replaces unpaired surrogates and invalid UTF-8 by U+FFFD. Each byte is read two or three times; memory is allocated only for objects,
// so tokens cost next to nothing.
//
// Keys are compared without regard to case, as encoding/json matches fields of a struct so. Objects below the fields in theirs have
// keys of the client's own, and there case counts.
func Check(text []byte) error { return check(text, false) }

// CheckClientKeys is Check for JSON whose keys are all the client's own.
func CheckClientKeys(text []byte) error { return check(text, true) }

// clientKeyed are the fields whose objects have keys of the client's own.
var clientKeyed = []string{"arguments", "chat_template_kwargs", "logit_bias", "metadata", "parameters", "prediction", "problems", "schema",
	"user_metadata"}

func check(text []byte, own bool) error {
	if !utf8.Valid(text) {
		return refusal.Errorf(http.StatusBadRequest, "the body is not UTF-8, expected JSON in UTF-8")
	}
	if at := jsonl.LoneSurrogate(text); at >= 0 {
		path, _ := scan(text, at, own)
		return named(path, "found %s, which is half of a surrogate pair and no character; send both halves, or leave it out", text[at:at+6])
	}
	if path, twice := scan(text, -1, own); twice {
		return named(path, "comes twice, expected once")
	}
	return nil
}

// named is the refusal of the value at a path.
func named(path, format string, args ...any) error {
	if path == "" {
		return refusal.Errorf(http.StatusBadRequest, "the body: "+format, args...)
	}
	return refusal.Field(refusal.Truncate(path, 100), format, args...)
}

// level is an object or a list that is open.
type level struct {
	list  bool
	value bool   // of an object: the next token is a value
	own   bool   // keys are the client's own: case counts
	index int    // of a list
	key   []byte // the last key, without quotes
	few   [][]byte
	many  map[string]bool // all keys, once there are more than fewKeys
}

const (
	fewKeys   = 12    // so many are compared one by one
	mostDepth = 10000 // the limit of encoding/json
)

// scan walks through JSON up to an offset, or to the first duplicate key, and returns the path there. own: all keys are the
// client's.
func scan(text []byte, until int, own bool) (path string, twice bool) {
	var open []level
	var top *level
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			end := closing(text, i)
			if top != nil && !top.list && !top.value {
				if top.key = text[i+1 : end]; top.has() && until < 0 {
					return pathOf(open), true
				}
			}
			if i <= until && until < end {
				return pathOf(open), false
			}
			i = end
		case '{', '[':
			if len(open) == mostDepth {
				return "", false
			}
			within := own || top != nil && top.hasClientKeys()
			if len(open) == cap(open) {
				open = append(open, level{})
			} else { // reuse the list of keys of the level that was last at this depth
				open = open[:len(open)+1]
			}
			top = &open[len(open)-1]
			*top = level{list: c == '[', own: within, few: top.few[:0]}
		case '}', ']':
			if top = nil; len(open) > 0 {
				open = open[:len(open)-1]
			}
			if len(open) > 0 {
				top = &open[len(open)-1]
			}
		case ',':
			if top != nil {
				top.index, top.value = top.index+1, false
			}
		case ':':
			if top != nil {
				top.value = true
			}
		}
	}
	return "", false
}

// hasClientKeys reports whether the value that begins here has keys of the client's own.
func (l *level) hasClientKeys() bool {
	return l.own || !l.list && slices.ContainsFunc(clientKeyed, func(name string) bool { return strings.EqualFold(name, string(l.key)) })
}

// has records a key of an object, and reports whether the object had it already.
func (l *level) has() bool {
	key, same := l.key, bytes.Equal
	if bytes.IndexByte(key, '\\') >= 0 {
		var plain string
		if json.Unmarshal([]byte(`"`+string(key)+`"`), &plain) == nil {
			key = []byte(plain)
		}
	}
	if !l.own {
		same = bytes.EqualFold
	}
	if l.many != nil {
		before := len(l.many)
		l.many[l.canonical(key)] = true
		return len(l.many) == before
	}
	for _, other := range l.few {
		if same(other, key) {
			return true
		}
	}
	if l.few = append(l.few, key); len(l.few) > fewKeys {
		l.many = make(map[string]bool, 4*fewKeys)
		for _, k := range l.few {
			l.many[l.canonical(k)] = true
		}
	}
	return false
}

// canonical is the canonical form of a key.
func (l *level) canonical(key []byte) string {
	if l.own {
		return string(key)
	}
	return strings.ToLower(strings.ToUpper(string(key))) // some letters have more than two cases
}

// closing is the index of the quote that ends the string starting at i.
func closing(text []byte, i int) int {
	for end := i + 1; ; end++ {
		next := bytes.IndexByte(text[end:], '"')
		if next < 0 {
			return len(text)
		}
		end += next
		back := end - 1
		for text[back] == '\\' {
			back--
		}
		if (end-back)%2 == 1 {
			return end
		}
	}
}

// pathOf formats the path to the current value: messages.0.content.
func pathOf(open []level) string {
	var steps []string
	for _, l := range open {
		switch {
		case l.list:
			steps = append(steps, strconv.Itoa(l.index))
		case l.key != nil:
			steps = append(steps, string(l.key))
		}
	}
	return strings.Join(steps, ".")
}
