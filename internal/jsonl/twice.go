package jsonl

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Twice is the first member that an object in a text has twice, by its path, such as tests[2].stdin; "" where there is none. Of two,
// encoding/json takes the last and says nothing. The text is valid JSON. It takes little longer than to read the text.
func Twice(text []byte) (path string) {
	d := doubles{skimmer{text: text}}
	return d.value()
}

// inAnotherCase is the first field of an object that it has twice, or in another case, too, of those that count: encoding/json takes
// both for one.
func inAnotherCase(text []byte, counts func(name string) bool) (field string) {
	var names []string
	Skim(text, func(quoted, _ []byte) {
		name := string(quoted)
		has := func(before string) bool { return strings.EqualFold(before, name) }
		switch {
		case field != "" || !counts(name):
		case slices.ContainsFunc(names, has):
			field = name
		default:
			names = append(names, name)
		}
	})
	return field
}

// doubles is a place in a text in which names that are there twice are looked for.
type doubles struct{ skimmer }

func (d *doubles) value() string {
	d.space()
	if d.at >= len(d.text) {
		return ""
	}
	switch d.text[d.at] {
	case '{':
		return d.object()
	case '[':
		return d.list()
	}
	d.skimmer.value()
	return ""
}

func (d *doubles) list() string {
	d.at++
	if end := bytes.IndexByte(d.text[d.at:], ']'); end >= 0 && flat(d.text[d.at:d.at+end]) {
		d.at += end + 1
		return ""
	}
	for i := 0; d.at < len(d.text) && !d.take(']'); i++ {
		at := d.at
		if path := d.value(); path != "" {
			return joined(fmt.Sprintf("[%d]", i), path)
		}
		if d.take(','); d.at == at {
			return "" // this is no JSON
		}
	}
	return ""
}

// flat tells of what a list has before the first bracket whether that is its end: numbers, and nothing around them.
func flat(part []byte) bool {
	if len(part) == 0 || part[0] != '-' && (part[0] < '0' || part[0] > '9') {
		return false
	}
	return bytes.IndexByte(part, '"') < 0 && bytes.IndexByte(part, '{') < 0 && bytes.IndexByte(part, '[') < 0
}

func (d *doubles) object() string {
	d.at++
	var room [12][]byte // most objects have no more names, and need no memory
	var all map[string]bool
	names := room[:0]
	for !d.take('}') {
		at := d.at
		if !d.string() {
			return ""
		}
		name := plain(d.text[at:d.at])
		if known(names, name, &all) {
			return cmp.Or(string(name), `""`)
		}
		names = append(names, name)
		d.take(':')
		if path := d.value(); path != "" {
			return joined(string(name), path)
		}
		d.take(',')
	}
	return ""
}

// plain is a name without quotes and escapes.
func plain(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	var name string
	_ = json.Unmarshal(quoted, &name) // of valid JSON
	return []byte(name)
}

// known tells whether a name is among those before it; all has them once they are many.
func known(names [][]byte, name []byte, all *map[string]bool) bool {
	const few = 32
	if len(names) < few {
		for _, n := range names {
			if bytes.Equal(n, name) {
				return true
			}
		}
		return false
	}
	if *all == nil {
		*all = map[string]bool{}
		for _, n := range names {
			(*all)[string(n)] = true
		}
	}
	if (*all)[string(name)] {
		return true
	}
	(*all)[string(name)] = true
	return false
}

func joined(name, rest string) string {
	if rest[0] == '[' {
		return name + rest
	}
	return name + "." + rest
}
