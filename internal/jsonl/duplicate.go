package jsonl

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// DuplicateKey is the path of the first duplicate member in a JSON text, such as tests[2].stdin; "" if there is none. encoding/json would
// silently take the last of the two. It takes little longer than reading the text.
func DuplicateKey(text []byte) (path string) {
	d := duplicateScan{skimmer{text: text}}
	return d.value()
}

// inAnotherCase is the first field of an object that occurs twice, perhaps in different case, of those that counts accepts:
// encoding/json takes both for the same field.
func inAnotherCase(text []byte, counts func(name string) bool) (field string) {
	var names []string
	EachMember(text, func(quoted, _ []byte) {
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

// duplicateScan is a position in a text that is searched for duplicate names.
type duplicateScan struct{ skimmer }

func (d *duplicateScan) value() string {
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

func (d *duplicateScan) list() string {
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
			return "" // not valid JSON
		}
	}
	return ""
}

// flat reports whether a part of a list before its first bracket contains only numbers, so that the bracket ends the list.
func flat(part []byte) bool {
	if len(part) == 0 || part[0] != '-' && (part[0] < '0' || part[0] > '9') {
		return false
	}
	return bytes.IndexByte(part, '"') < 0 && bytes.IndexByte(part, '{') < 0 && bytes.IndexByte(part, '[') < 0
}

func (d *duplicateScan) object() string {
	d.at++
	var room [12][]byte // enough for most objects, without allocation
	var all map[string]bool
	names := room[:0]
	for !d.take('}') {
		at := d.at
		if !d.string() {
			return ""
		}
		name := unquote(d.text[at:d.at])
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

// unquote is a name, unquoted.
func unquote(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	var name string
	_ = json.Unmarshal(quoted, &name) // valid JSON
	return []byte(name)
}

// known reports whether a name is among those before it; if these are many, all has them as a set.
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
