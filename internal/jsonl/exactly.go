package jsonl

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Exactly is json.Unmarshal of a file that other programs read, too, which tell capitals from small letters: a name at its top that is a
// field's of the struct that v points to but for these is refused, as one of the two would not read what the other does.
func Exactly(text []byte, v any) error {
	var names map[string]json.RawMessage
	t := reflect.TypeOf(v).Elem()
	if t.Kind() != reflect.Struct || json.Unmarshal(text, &names) != nil {
		return json.Unmarshal(text, v)
	}
	fields := reflect.VisibleFields(t)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		for _, f := range fields {
			field, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if field != name && strings.EqualFold(field, name) {
				return fmt.Errorf("found the key %q, expected %s", name, field)
			}
		}
	}
	return json.Unmarshal(text, v)
}
