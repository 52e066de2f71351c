// Package settings parses key=value words. An unknown key is an error that suggests the nearest known one.
package settings

import (
	"slices"
	"strconv"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Set maps each known key to its parser.
type Set map[string]func(value string) error

// Float parses a number.
func Float(p *float64) func(string) error {
	return func(value string) error {
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return badinput.Errorf("found %q, expected a number", value)
		}
		*p = v
		return nil
	}
}

// Int parses an integer.
func Int(p *int) func(string) error {
	return func(value string) error {
		v, err := strconv.Atoi(value)
		if err != nil {
			return badinput.Errorf("found %q, expected a whole number", value)
		}
		*p = v
		return nil
	}
}

// Bool parses true or false.
func Bool(p *bool) func(string) error {
	return func(text string) error {
		v, err := strconv.ParseBool(text)
		if err != nil || text != strconv.FormatBool(v) {
			return badinput.Errorf("found %q, expected true or false", text)
		}
		*p = v
		return nil
	}
}

// String accepts anything.
func String(p *string) func(string) error {
	return func(value string) error { *p = value; return nil }
}

// Apply parses each word.
func (s Set) Apply(words []string) error {
	for _, word := range words {
		key, value, ok := strings.Cut(word, "=")
		if !ok {
			return badinput.Errorf("%q: expected key=value", word)
		}
		take, known := s[key]
		if !known {
			return UnknownKey(key, s.keys())
		}
		if err := take(value); err != nil {
			return badinput.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

func (s Set) keys() []string {
	keys := make([]string, 0, len(s))
	for k := range s {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// UnknownKey is the error of an unknown key; it suggests the nearest one.
func UnknownKey(key string, known []string) error {
	if near := Nearest(key, known); near != "" {
		return badinput.Errorf("unknown key %q; did you mean %q?", key, near)
	}
	return badinput.Errorf("unknown key %q; expected one of %q", key, known)
}
