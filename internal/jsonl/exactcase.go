package jsonl

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// UnmarshalExactCase is json.Unmarshal for a file that case-sensitive programs read too. It refuses a top-level key that differs from
// a field of v only in case, as only one of the programs would read it.
func UnmarshalExactCase(text []byte, v any) error {
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
