package dataset

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/data"
)

// testKeys are the JSON keys of a test, in lower case, because encoding/json ignores case.
var testKeys = func() map[string]bool {
	keys := map[string]bool{}
	for _, t := range []reflect.Type{reflect.TypeFor[looseTest](), reflect.TypeFor[data.Limits](), reflect.TypeFor[data.MatchKeys](),
		reflect.TypeFor[data.AssertKeys]()} {
		for i := range t.NumField() {
			key, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			keys[key] = true
		}
	}
	return keys
}()

// decodeTests decodes a list of tests and returns their unread keys. If decoding fails, it looks for the faulty test, for the
// message.
func decodeTests(name string, raw json.RawMessage, to *[]looseTest) (unread []string, err error) {
	strict := json.NewDecoder(bytes.NewReader(raw))
	strict.DisallowUnknownFields()
	if strict.Decode(to) == nil && strict.InputOffset() == int64(len(raw)) {
		return nil, nil
	}
	*to = nil
	whole := decode(name, raw, to, BadTests)
	if whole == nil {
		return unreadKeys(raw), nil
	}
	var each []json.RawMessage
	if err := decode(name, raw, &each, BadTests); err != nil {
		return nil, err
	}
	for i, one := range each {
		var t looseTest
		if err := json.Unmarshal(one, &t); err != nil {
			return nil, refuse(BadTests, "tests[%d]: %s", i, explainJSON(err))
		}
	}
	return nil, whole
}

// unreadKeys lists the distinct unknown keys of tests, as "tests[].key". A null counts as absent. raw must be a valid list
// of tests.
func unreadKeys(raw json.RawMessage) []string {
	var each []map[string]notNull
	if json.Unmarshal(raw, &each) != nil {
		return nil
	}
	unread := map[string]bool{}
	for _, test := range each {
		for key, there := range test {
			if bool(there) && !testKeys[strings.ToLower(key)] {
				unread["tests[]."+key] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(unread))
}

// notNull records whether a JSON value is not null, without decoding it.
type notNull bool

// UnmarshalJSON looks at the first byte only.
func (t *notNull) UnmarshalJSON(raw []byte) error {
	*t = raw[0] != 'n'
	return nil
}
