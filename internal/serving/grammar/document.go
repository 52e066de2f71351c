package grammar

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/serving/grammar/automata"
)

// object is a JSON object in a schema's text, with its keys in order. Values are *object, []any, string, json.Number, bool and nil.
type object struct {
	id   int // unique, in the order of the text
	keys []string
	vals map[string]any
	at   *location
}

// location is the path of a value.
type location struct {
	up   *location
	step string
}

// String is the location as a JSON pointer in a URI fragment, shortened in the middle.
func (l *location) String() string {
	var steps []string
	for ; l != nil && l.up != nil; l = l.up {
		steps = append(steps, strings.NewReplacer("~", "~0", "/", "~1").Replace(automata.Truncate(l.step)))
	}
	var out strings.Builder
	out.WriteString("#")
	const most = 12
	for i := len(steps) - 1; i >= 0; i-- {
		if len(steps) > most && i == len(steps)-most/2 {
			out.WriteString("/…")
			i = most / 2
			continue
		}
		out.WriteString("/" + steps[i])
	}
	return out.String()
}

const (
	mostSchemaBytes = 1 << 20
	mostSchemaDepth = 100
)

type reader struct {
	dec *json.Decoder
	ids int
}

// readSchema parses a schema: a JSON object or a boolean.
func readSchema(text json.RawMessage) (any, error) {
	if len(text) > mostSchemaBytes {
		return nil, badinput.Errorf("schema: %d bytes, expected at most %d", len(text), mostSchemaBytes)
	}
	r := &reader{dec: json.NewDecoder(bytes.NewReader(text))}
	r.dec.UseNumber()
	v, err := r.value(&location{}, 0)
	if err == io.EOF {
		return nil, badinput.Errorf("schema: empty, expected a JSON object")
	}
	if err != nil {
		return nil, err
	}
	if _, err := r.dec.Token(); err != io.EOF {
		return nil, badinput.Errorf("schema: more than one JSON value")
	}
	return v, nil
}

func (r *reader) value(at *location, depth int) (any, error) {
	if depth > mostSchemaDepth {
		return nil, badinput.Errorf("schema %s: nested more than %d deep; name what recurs in $defs", at, mostSchemaDepth)
	}
	token, err := r.token(at)
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		return r.object(at, depth)
	case json.Delim('['):
		list := []any{}
		for r.dec.More() {
			v, err := r.value(&location{at, itoa(len(list))}, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := r.token(at)
		return list, err
	}
	return token, nil
}

func (r *reader) object(at *location, depth int) (any, error) {
	o := &object{id: r.ids, vals: map[string]any{}, at: at}
	r.ids++
	for r.dec.More() {
		key, err := r.token(at)
		if err != nil {
			return nil, err
		}
		name := key.(string)
		if _, twice := o.vals[name]; twice {
			return nil, badinput.Errorf("schema %s: the key %q twice", at, automata.Truncate(name))
		}
		v, err := r.value(&location{at, name}, depth+1)
		if err != nil {
			return nil, err
		}
		o.keys, o.vals[name] = append(o.keys, name), v
	}
	_, err := r.token(at)
	return o, err
}

func (r *reader) token(at *location) (json.Token, error) {
	t, err := r.dec.Token()
	if err == io.EOF && at.up == nil {
		return nil, err
	}
	if err != nil {
		return nil, badinput.Errorf("schema: not JSON after byte %d: %w", r.dec.InputOffset(), err)
	}
	return t, nil
}

// resolve returns the value that a $ref points to.
func resolve(root any, ref string) (any, bool) {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok || path != "" && path[0] != '/' {
		return nil, false
	}
	at := root
	for path != "" {
		step, rest, more := strings.Cut(path[1:], "/")
		path = ""
		if more {
			path = "/" + rest
		}
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(unescape(step))
		switch v := at.(type) {
		case *object:
			if at, ok = v.vals[step]; !ok {
				return nil, false
			}
		case []any:
			i, err := atoi(step)
			if err != nil || i < 0 || i >= len(v) {
				return nil, false
			}
			at = v[i]
		default:
			return nil, false
		}
	}
	switch at.(type) {
	case *object, bool:
		return at, true
	}
	return nil, false
}
