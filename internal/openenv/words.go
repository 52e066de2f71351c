package openenv

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template/parse"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// observedField is a field of an observation.
type observedField struct {
	name string
	text string
}

// Text renders an observation for the model: by the template if there is one; else its only text, or its fields that are not
// empty, in their order.
func (s *Server) Text(r Result) (string, error) {
	if s.Template != nil {
		observation := map[string]any{}
		d := json.NewDecoder(bytes.NewReader(r.Observation))
		d.UseNumber()
		if err := d.Decode(&observation); err != nil {
			return "", s.down("gave an observation that is no JSON object: %w", err)
		}
		var out strings.Builder
		if err := s.Template.Execute(&out, numbered(observation)); err != nil {
			return "", badinput.Errorf("openenv_template: %w", err)
		}
		return strings.TrimSpace(out.String()), nil
	}
	fields, err := fieldsOf(r.Observation)
	if err != nil {
		return "", s.down("gave an observation that is no JSON object: %w", err)
	}
	if len(fields) == 1 {
		return strings.TrimSpace(fields[0].text), nil
	}
	var out strings.Builder
	for _, f := range fields {
		text := strings.TrimRight(f.text, "\n")
		if strings.Contains(text, "\n") {
			text = "\n" + text
		} else {
			text = " " + text
		}
		out.WriteString(f.name + ":" + text + "\n")
	}
	return strings.TrimSpace(out.String()), nil
}

// checkWords notes fields that the template uses but no observation has: neither r, nor any by the schema.
func (s *Server) checkWords(r Result) {
	if s.Template == nil || s.Template.Tree == nil || len(s.fields) == 0 {
		return
	}
	var has map[string]json.RawMessage
	_ = json.Unmarshal(r.Observation, &has) // Text reports the error
	named := map[string]bool{}
	namedIn(named, s.Template.Root)
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if _, there := has[name]; !there && !slices.Contains(s.fields, name) {
			s.Notes = append(s.Notes, fmt.Sprintf("openenv_template: found {{.%s}}, but the server's observations have %s", name,
				strings.Join(s.fields, ", ")))
		}
	}
}

// namedIn collects the fields of the observation that a template uses. Within with and range the dot is something else.
func namedIn(names map[string]bool, nodes ...parse.Node) {
	for _, node := range nodes {
		switch n := node.(type) {
		case *parse.ListNode:
			if n != nil {
				namedIn(names, n.Nodes...)
			}
		case *parse.ActionNode:
			namedIn(names, n.Pipe)
		case *parse.IfNode:
			namedIn(names, n.Pipe, n.List, n.ElseList)
		case *parse.WithNode:
			namedIn(names, n.Pipe, n.ElseList)
		case *parse.RangeNode:
			namedIn(names, n.Pipe, n.ElseList)
		case *parse.PipeNode:
			for _, c := range n.Cmds {
				namedIn(names, c.Args...)
			}
		case *parse.ChainNode:
			namedIn(names, n.Node)
		case *parse.FieldNode:
			names[n.Ident[0]] = true
		}
	}
}

// number is a number that a template can compare, and that prints as in JSON: Go would print a million as 1e+06.
type number float64

func (n number) String() string {
	text, err := json.Marshal(float64(n))
	if err != nil {
		panic(err) // it was parsed from JSON
	}
	return string(text)
}

// numbered converts numbers for a template. One that float64 cannot hold exactly stays as it is written.
func numbered(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, item := range v {
			v[key] = numbered(item)
		}
	case []any:
		for i, item := range v {
			v[i] = numbered(item)
		}
	case json.Number:
		const exact = 1 << 53
		if n, err := v.Float64(); err == nil && (n > -exact && n < exact || strings.ContainsAny(string(v), ".eE")) {
			return number(n)
		}
	}
	return v
}

// fieldsOf are the fields of an object that are not empty: strings as they are, other values as JSON.
func fieldsOf(object json.RawMessage) (fields []observedField, err error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return nil, errors.Join(errors.New("expected an object"), err)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		name, _ := key.(string)
		text := string(value)
		switch text {
		case "null", `""`, "[]", "{}":
			continue
		}
		if value[0] == '"' {
			if err := json.Unmarshal(value, &text); err != nil {
				return nil, err
			}
		}
		fields = append(fields, observedField{name, text})
	}
	return fields, nil
}
