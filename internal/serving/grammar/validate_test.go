package grammar

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/mail"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// parse decodes a text like encoding/json.
func parse(text string) (v any, err error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("more than one value")
	}
	var plain any
	return v, json.Unmarshal([]byte(text), &plain) // numbers must fit a float64
}

// validator checks values against a schema. It is written from the specification alone, and shares no code with the package.
type validator struct{ root any }

func (v validator) check(schema, value any) error {
	if yes, ok := schema.(bool); ok {
		if !yes {
			return fmt.Errorf("nothing is allowed here")
		}
		return nil
	}
	s := schema.(map[string]any)
	if ref, ok := s["$ref"].(string); ok {
		at := v.root
		for _, step := range strings.Split(ref, "/")[1:] {
			at = at.(map[string]any)[step]
		}
		if err := v.check(at, value); err != nil {
			return err
		}
	}
	for _, check := range []func(map[string]any, any) error{v.choices, v.fixed, v.typed} {
		if err := check(s, value); err != nil {
			return err
		}
	}
	switch value := value.(type) {
	case map[string]any:
		return v.object(s, value)
	case []any:
		return v.array(s, value)
	case string:
		return v.text(s, value)
	case json.Number:
		return v.number(s, value)
	}
	return nil
}

func (v validator) choices(s map[string]any, value any) error {
	for _, key := range []string{"anyOf", "oneOf"} {
		if branches, ok := s[key].([]any); ok {
			fit := 0
			for _, b := range branches {
				if v.check(b, value) == nil {
					fit++
				}
			}
			if fit == 0 || fit > 1 && key == "oneOf" {
				return fmt.Errorf("%s: %d branches take %v", key, fit, value)
			}
		}
	}
	all, _ := s["allOf"].([]any)
	for _, b := range all {
		if err := v.check(b, value); err != nil {
			return err
		}
	}
	return nil
}

func (v validator) fixed(s map[string]any, value any) error {
	list, ok := s["enum"].([]any)
	if one, has := s["const"]; has {
		list, ok = []any{one}, true
	}
	if ok && !slices.ContainsFunc(list, func(w any) bool { return equal(w, value) }) {
		return fmt.Errorf("%v is none of %v", value, list)
	}
	return nil
}

func equal(a, b any) bool {
	x, ok := a.(json.Number)
	y, also := b.(json.Number)
	if ok && also {
		return rational(x).Cmp(rational(y)) == 0
	}
	return reflect.DeepEqual(a, b)
}

func rational(n json.Number) *big.Rat {
	r, ok := new(big.Rat).SetString(string(n))
	if !ok {
		panic(n)
	}
	return r
}

func (v validator) typed(s map[string]any, value any) error {
	names, ok := s["type"].([]any)
	if name, one := s["type"].(string); one {
		names, ok = []any{name}, true
	}
	is := map[string]bool{}
	switch value := value.(type) {
	case nil:
		is["null"] = true
	case bool:
		is["boolean"] = true
	case string:
		is["string"] = true
	case []any:
		is["array"] = true
	case map[string]any:
		is["object"] = true
	case json.Number:
		is["number"], is["integer"] = true, rational(value).IsInt()
	}
	if ok && !slices.ContainsFunc(names, func(n any) bool { return is[n.(string)] }) {
		return fmt.Errorf("%v is not of type %v", value, names)
	}
	return nil
}

func (v validator) object(s map[string]any, value map[string]any) error {
	required, _ := s["required"].([]any)
	for _, name := range required {
		if _, ok := value[name.(string)]; !ok {
			return fmt.Errorf("%v is missing", name)
		}
	}
	properties, _ := s["properties"].(map[string]any)
	for name, item := range value {
		schema, ok := properties[name]
		if !ok {
			schema, ok = s["additionalProperties"]
		}
		if ok {
			if err := v.check(schema, item); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return atLeast(s, "minProperties", len(value))
}

func (v validator) array(s map[string]any, value []any) error {
	prefix, _ := s["prefixItems"].([]any)
	for i, item := range value {
		schema, ok := s["items"]
		if i < len(prefix) {
			schema, ok = prefix[i], true
		}
		if ok {
			if err := v.check(schema, item); err != nil {
				return err
			}
		}
	}
	if err := atMost(s, "maxItems", len(value)); err != nil {
		return err
	}
	return atLeast(s, "minItems", len(value))
}

func atLeast(s map[string]any, key string, n int) error {
	if least, ok := s[key].(json.Number); ok && rational(least).Cmp(big.NewRat(int64(n), 1)) > 0 {
		return fmt.Errorf("%s: %d", key, n)
	}
	return nil
}

func atMost(s map[string]any, key string, n int) error {
	if most, ok := s[key].(json.Number); ok && rational(most).Cmp(big.NewRat(int64(n), 1)) < 0 {
		return fmt.Errorf("%s: %d", key, n)
	}
	return nil
}

func (v validator) text(s map[string]any, value string) error {
	if strings.ContainsRune(value, utf8.RuneError) {
		return fmt.Errorf("%q has half a character", value)
	}
	if p, ok := s["pattern"].(string); ok && !regexp.MustCompile(p).MatchString(value) {
		return fmt.Errorf("%q does not match %s", value, p)
	}
	if err := atMost(s, "maxLength", utf8.RuneCountInString(value)); err != nil {
		return err
	}
	if err := atLeast(s, "minLength", utf8.RuneCountInString(value)); err != nil {
		return err
	}
	name, _ := s["format"].(string)
	return checkFormat(name, value)
}

func checkFormat(name, value string) (err error) {
	match := func(pattern string) {
		if !regexp.MustCompile(pattern).MatchString(value) {
			err = fmt.Errorf("%q is no %s", value, name)
		}
	}
	switch name {
	case "date":
		_, err = time.Parse(time.DateOnly, value)
	case "time":
		_, err = time.Parse(time.RFC3339Nano, "2000-01-01T"+value)
	case "date-time":
		_, err = time.Parse(time.RFC3339Nano, value)
	case "ipv4", "ipv6":
		var a netip.Addr
		if a, err = netip.ParseAddr(value); err == nil && a.Is4() != (name == "ipv4") {
			err = fmt.Errorf("%s is not %s", value, name)
		}
	case "email":
		_, err = mail.ParseAddress(value)
	case "uuid":
		match(`^[[:xdigit:]]{8}(-[[:xdigit:]]{4}){3}-[[:xdigit:]]{12}$`)
	case "hostname":
		match(`^(?i)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)
		if len(value) > 253 {
			err = fmt.Errorf("%d bytes", len(value))
		}
	case "duration":
		match(`^P(?:\d+W|(\d+Y)?(\d+M)?(\d+D)?(T(\d+H)?(\d+M)?(\d+S)?)?)$`)
		if bytes.ContainsAny([]byte(value[len(value)-1:]), "PT") {
			err = fmt.Errorf("%s says nothing", value)
		}
	}
	return err
}

func (v validator) number(s map[string]any, value json.Number) error {
	n := rational(value)
	for key, outside := range map[string]func(order int) bool{
		"minimum":          func(order int) bool { return order < 0 },
		"exclusiveMinimum": func(order int) bool { return order <= 0 },
		"maximum":          func(order int) bool { return order > 0 },
		"exclusiveMaximum": func(order int) bool { return order >= 0 },
	} {
		if limit, ok := s[key].(json.Number); ok && outside(n.Cmp(rational(limit))) {
			return fmt.Errorf("%s: %s beside %s", key, value, limit)
		}
	}
	if of, ok := s["multipleOf"].(json.Number); ok && !new(big.Rat).Quo(n, rational(of)).IsInt() {
		return fmt.Errorf("%s is no multiple of %s", value, of)
	}
	return nil
}
