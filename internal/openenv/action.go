package openenv

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// field is the field of an action that the model's text goes into.
type field struct {
	name string // "": the text is the whole action, as JSON
	kind string // a type of JSON Schema: string, integer, number, boolean
}

func (f field) String() string {
	if f.name == "" {
		return "actions as JSON"
	}
	return fmt.Sprintf("actions with %s (%s)", f.name, f.kind)
}

var kinds = []string{"string", "integer", "number", "boolean"}

// properties are the properties of a schema, sorted by name.
func properties(schema json.RawMessage) []string {
	var s struct{ Properties map[string]json.RawMessage }
	_ = json.Unmarshal(schema, &s) // on an error there are none
	return slices.Sorted(maps.Keys(s.Properties))
}

// choose finds the field: the one that is asked for, or else the only required one, or the only one.
func choose(schema json.RawMessage, asked string) (field, error) {
	var s struct {
		Properties map[string]struct{ Type any }
		Required   []string
	}
	if len(schema) > 0 && json.Unmarshal(schema, &s) != nil {
		s.Properties = nil
	}
	delete(s.Properties, "metadata")
	names := slices.Sorted(maps.Keys(s.Properties))
	kind := func(name string) string { text, _ := s.Properties[name].Type.(string); return text }
	switch {
	case asked == "json":
		return field{}, nil
	case asked != "" && (len(names) == 0 || kind(asked) == ""):
		if len(names) > 0 && !slices.Contains(names, asked) {
			return field{}, badinput.Errorf("openenv_action: found %q, but the server's actions have %s", asked, strings.Join(names, ", "))
		}
		return field{asked, "string"}, nil
	case asked != "":
		if !slices.Contains(kinds, kind(asked)) {
			return field{}, badinput.Errorf("openenv_action: %s is %s, not a text; type openenv_action=json for a model that writes the action "+
				"itself", asked, kind(asked))
		}
		return field{asked, kind(asked)}, nil
	case len(names) == 0:
		return field{}, badinput.Errorf("openenv_action: the server's /schema does not list the fields of actions; type openenv_action=NAME " +
			"of the field for the model's text, or openenv_action=json")
	}
	must := slices.DeleteFunc(s.Required, func(name string) bool { return name == "metadata" })
	if len(must) == 0 { // if none is required, prefer the text
		if must = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return kind(name) != "string" }); len(must) == 0 {
			must = names
		}
	}
	if len(must) == 1 && slices.Contains(kinds, kind(must[0])) {
		return field{must[0], kind(must[0])}, nil
	}
	return field{}, badinput.Errorf("openenv_action: the server's actions have %s; type openenv_action=NAME of the field for the model's "+
		"text, or openenv_action=json for a model that writes the action itself", strings.Join(names, ", "))
}

var (
	fenced        = regexp.MustCompile("(?s)```[a-zA-Z0-9_+-]*\\n(.*?)```")
	numberPattern = regexp.MustCompile(`[-−]?(?:\d{1,3}(?:,\d{3})+|\d+|\B\.\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?`)
	asJSON        = strings.NewReplacer(",", "", "−", "-")
	leadingZeros  = regexp.MustCompile(`^(-?)0+(\d)`) // leading zeros, which JSON does not allow
)

// Act makes an action of a text. A *RejectedError says what is wrong with the text.
func (s *Server) Act(text string) (map[string]any, error) {
	text = strings.TrimSpace(text)
	block := ""
	if found := fenced.FindAllStringSubmatch(text, -1); found != nil {
		block = strings.TrimRight(found[len(found)-1][1], "\n")
	}
	switch s.field.kind {
	case "":
		if block != "" {
			text = block
		}
		var read map[string]any // raw values: numbers keep their digits
		var written map[string]json.RawMessage
		if json.Unmarshal([]byte(text), &read) != nil || read == nil || json.Unmarshal([]byte(text), &written) != nil {
			return nil, &RejectedError{"there is no action; expected a JSON object"}
		}
		for name, value := range written {
			read[name] = value // large numbers keep their digits
		}
		return read, nil
	case "string":
		if s.field.name == "code" && block != "" {
			text = block
		}
		return map[string]any{s.field.name: text}, nil
	case "boolean":
		words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return r < 'a' || r > 'z' })
		for _, word := range slices.Backward(words) {
			if word == "true" || word == "yes" || word == "false" || word == "no" {
				return map[string]any{s.field.name: word == "true" || word == "yes"}, nil
			}
		}
		return nil, &RejectedError{"there is no action; expected true or false"}
	}
	found := numberPattern.FindAllString(text, -1)
	if len(found) == 0 {
		return nil, &RejectedError{"there is no action; expected a number"}
	}
	number, err := numberOf(found[len(found)-1], s.field.kind == "integer")
	return map[string]any{s.field.name: number}, err
}

// numberOf converts a number as people write it to JSON.
func numberOf(text string, whole bool) (json.Number, error) {
	text = asJSON.Replace(text)
	if at := strings.Index(text, "."); at >= 0 && strings.Trim(text[:at], "-") == "" {
		text = text[:at] + "0" + text[at:]
	}
	text = leadingZeros.ReplaceAllString(text, "$1$2")
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return "", &RejectedError{"there is no action; expected a number that is not as large"}
	}
	if whole && strings.ContainsAny(text, ".eE") {
		if value != math.Trunc(value) || math.Abs(value) >= 1<<53 {
			return "", &RejectedError{"there is no action; expected a whole number"}
		}
		text = strconv.FormatInt(int64(value), 10)
	}
	return json.Number(text), nil
}
