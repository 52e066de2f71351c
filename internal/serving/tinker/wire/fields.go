package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/serving/body"
	"github.com/seed-7879b91d/grpo/internal/settings"
)

// Read parses the JSON of a request into v, and refuses unknown fields by CheckFields.
func Read(text []byte, v any) error {
	if err := Parse(text, v); err != nil || len(text) == 0 {
		return err
	}
	return CheckFields(text, v)
}

// Parse parses JSON into v, ignoring unknown fields.
func Parse(text []byte, v any) error {
	if len(text) == 0 {
		return nil
	}
	err := json.Unmarshal(text, v)
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) && strings.HasPrefix(kind.Value, "number") && json.Unmarshal(body.NormaliseIntegers(text), v) == nil {
		err = nil
	}
	if err != nil {
		if clean, odd := NullNonFinite(text); odd != nil && json.Valid(clean) {
			return odd
		}
		return badinput.Errorf("%w", body.Explain(err, v))
	}
	if err := body.Check(text); err != nil {
		return badinput.Errorf("%w", err)
	}
	return nil
}

// Canonical writes a JSON object in canonical form, with sorted keys, and without the key of somebody else that a load_weights may
// have: what is canonical is stored.
func Canonical(text []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v map[string]any
	if err := dec.Decode(&v); err != nil {
		return nil, badinput.Errorf("body: %w", err)
	}
	delete(v, "weights_access_token")
	return json.Marshal(v)
}

// CheckFields refuses a request with misspelled fields, as ignoring them would train or sample something else than was meant. At the top
// level, clients of other versions may send fields that are not known here; these are ignored unless they resemble a field that is
// missing. Objects inside a request do not change between versions, so there every unknown field is refused.
func CheckFields(text []byte, v any) error {
	if err := known("", reflect.TypeOf(v).Elem(), text); err != nil {
		return err
	}
	if q, ok := v.(interface{ check() error }); ok && Parse(text, v) == nil {
		return q.check()
	}
	return nil
}

// A value of the wrong type is refused by Parse.
func known(at string, t reflect.Type, text []byte) error {
	if t == reflect.TypeFor[[]int32]() && bytes.HasPrefix(text, []byte("[")) && bytes.Contains(text, []byte("null")) {
		return badinput.Errorf("%s: found null in it, expected whole numbers alone", at) // which would be read as 0
	}
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct {
		var all []json.RawMessage
		_ = json.Unmarshal(text, &all)
		for i, x := range all {
			if err := known(fmt.Sprintf("%s %d", at, i), t.Elem(), x); err != nil {
				return err
			}
		}
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var given map[string]json.RawMessage
	_ = json.Unmarshal(text, &given)
	names := namesOf(t)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		i := slices.IndexFunc(names, func(n named) bool { return strings.EqualFold(n.name, name) })
		if i < 0 {
			if err := unknownName(at, name, names, given); err != nil {
				return err
			}
		} else if within := names[i].of; within != nil {
			if err := known(strings.TrimPrefix(at+"."+names[i].name, "."), within, given[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

// unknownName refuses an unknown name, or ignores it.
func unknownName(at, name string, names []named, given map[string]json.RawMessage) error {
	if at == "" && len(given) > maxInputs {
		return nil // with that many, none is a misspelling, and comparing them would take long
	}
	var all []string
	for _, n := range names {
		if n.of != nil {
			all = append(all, n.name)
		}
	}
	near := ""
	if len(name) < maxName {
		near = settings.Nearest(name, all)
	}
	if _, there := given[near]; at != "" || near != "" && !there {
		return UnknownName(strings.TrimPrefix(at+": ", ": "), name, near, all)
	}
	return nil
}

// UnknownName is the error of an unknown name; near is the one that may be meant, or "".
func UnknownName(at, name, near string, all []string) error {
	if near != "" {
		return badinput.Errorf("%sfound %.60q, which is not known here; did you mean %s?", at, name, near)
	}
	return badinput.Errorf("%sfound %.60q, which is not known here; there are: %s", at, name, strings.Join(all, ", "))
}

// named is a field of an object, and its type; nil: it is not read.
type named struct {
	name string
	of   reflect.Type
}

func namesOf(t reflect.Type) (all []named) {
	for i := range t.NumField() {
		f := t.Field(i)
		for _, name := range strings.Fields(f.Tag.Get("also")) {
			all = append(all, named{name, nil})
		}
		if f.Anonymous {
			all = append(all, namesOf(f.Type)...)
		} else if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			all = append(all, named{name, f.Type})
		}
	}
	return all
}
