package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/serving/body"
	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
)

// fields are the fields of a request that were not read yet. The first error is kept.
type fields struct {
	all map[string]json.RawMessage
	err error
}

// readBody reads the body of a request, which must be valid text.
func readBody(from io.Reader) ([]byte, error) {
	text, err := body.ReadAll(from)
	if err != nil {
		return nil, refusal.BodyError(err)
	}
	return text, nil
}

// readFields splits a body, which must be an object, into its fields. It counts the values first, before it allocates any.
func readFields(text []byte) (*fields, error) {
	top, all := values(text)
	if top > mostFields {
		return nil, refusal.Errorf(http.StatusBadRequest, "the body: found %d fields, expected at most %d", top, mostFields)
	}
	f, prompts := &fields{all: map[string]json.RawMessage{}}, 0
	ok := split(text, func(name string, raw json.RawMessage) {
		f.all[name] = slices.Clone(raw)
		if strings.EqualFold(name, "prompt") {
			_, prompts = values(raw)
		}
	})
	if all -= prompts; all > mostValues {
		return nil, refusal.Errorf(http.StatusBadRequest, "the body: found %d values, expected at most %d", all, mostValues)
	}
	if ok {
		return f, body.Check(text)
	}
	if err := json.Unmarshal(text, &f.all); err != nil {
		return nil, body.Explain(err, &f.all)
	}
	return nil, refusal.Errorf(http.StatusBadRequest, "the body: found null, expected a JSON object")
}

// Limits of a body, as a parsed value takes far more memory than its text.
const (
	mostFields = 256     // of the outermost object
	mostValues = 1 << 16 // in all, without the tokens of prompts
)

// values counts the commas and colons outside of strings: those at the top level, and all.
func values(text []byte) (top, all int) {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
			all++
		case '}', ']':
			depth--
		case ',':
			if all++; depth == 1 {
				top++
			}
		}
	}
	return top, all
}

// take removes and returns a field; null counts as missing.
func (f *fields) take(name string) (json.RawMessage, bool) {
	raw, ok := f.all[name]
	delete(f.all, name)
	return raw, ok && !isNull(raw)
}

func isNull(raw json.RawMessage) bool { return bytes.Equal(raw, []byte("null")) }

func (f *fields) wrong(name, format string, args ...any) {
	if f.err == nil {
		f.err = refusal.Field(name, format, args...)
	}
}

// How much an error quotes of a request, in characters.
const (
	longestQuote  = 40  // of a value
	longestReason = 300 // of an error text that quotes values itself: what is wrong with a template or a schema
)

// brief is a value, shortened for an error.
func brief[T ~string | ~[]byte](value T) string { return refusal.Truncate(string(value), longestQuote) }

// value parses a field into to, which is unchanged if the field is missing.
func value[T any](f *fields, name string, to *T, expected string) bool {
	raw, ok := f.take(name)
	if !ok {
		return false
	}
	var v T
	if json.Unmarshal(raw, &v) != nil {
		f.wrong(name, "found %s, expected %s", brief(raw), expected)
		return false
	}
	*to = v
	return true
}

// exact is value for an object in which unknown fields are errors.
func exact[T any](f *fields, name string, to *T, expected string) bool {
	in := json.NewDecoder(bytes.NewReader(f.all[name]))
	in.DisallowUnknownFields()
	if err := in.Decode(new(T)); err != nil {
		if unknown, is := strings.CutPrefix(err.Error(), "json: unknown field "); is {
			f.wrong(name, "no field %s is known in it, expected %s", brief(unknown), expected)
		} else if why := mistyped(err); why != "" {
			f.wrong(name, "%s", why)
		}
	}
	return value(f, name, to, expected)
}

// mistyped names the field of an object whose value has the wrong type; "" if none has.
func mistyped(err error) string {
	var kind *json.UnmarshalTypeError
	if !errors.As(err, &kind) || kind.Field == "" {
		return ""
	}
	return body.Explain(err, nil).Error()
}

// number reads a number within bounds.
func (f *fields) number(name string, to *float32, least, most float64) {
	v := float64(*to)
	if !value(f, name, &v, "a number") {
		return
	}
	if !(v >= least && v <= most) || math.IsInf(v, 0) {
		f.wrong(name, "found %v, expected %v to %v", v, least, most)
		return
	}
	*to = float32(v)
}

// whole reads a whole number, which some clients write as 1.0.
func (f *fields) whole(name string, to *int64) bool {
	raw, ok := f.take(name)
	if !ok {
		return false
	}
	if json.Unmarshal(raw, to) == nil {
		return true
	}
	var v float64
	switch {
	case json.Unmarshal(raw, &v) != nil || v != math.Trunc(v):
		f.wrong(name, "found %s, expected a whole number", brief(raw))
		return false
	case math.Abs(v) > 1<<53:
		f.wrong(name, "found %s, expected a whole number, in digits, from %d to %d", brief(raw), int64(math.MinInt64), int64(math.MaxInt64))
		return false
	}
	*to = int64(v)
	return true
}

// count reads a whole number within bounds.
func (f *fields) count(name string, to *int, least, most int) bool {
	v := int64(*to)
	if !f.whole(name, &v) {
		return false
	}
	if v < int64(least) && most == math.MaxInt32 { // the bound is only technical: do not mention it
		f.wrong(name, "found %d, expected %d or more", v, least)
		return false
	}
	if v < int64(least) || v > int64(most) {
		f.wrong(name, "found %d, expected %d to %d", v, least, most)
		return false
	}
	*to = int(v)
	return true
}

// each calls fn with the elements of a list of at most most. A list is only parsed after it was found to be short enough.
func each(raw json.RawMessage, most int, fn func(i int, part json.RawMessage) error) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return refusal.Errorf(http.StatusBadRequest, "found %s, expected a list", brief(raw))
	}
	for i := 0; d.More(); i++ {
		if i == most {
			return refusal.Errorf(http.StatusBadRequest, "found more than %d, expected no more than that", most)
		}
		var part json.RawMessage
		if err := d.Decode(&part); err != nil {
			return err
		}
		if err := fn(i, part); err != nil {
			return err
		}
	}
	return nil
}

// list reads a field that is a list.
func (f *fields) list(name string, most int, fn func(i int, part json.RawMessage) error) bool {
	raw, ok := f.take(name)
	if !ok {
		return false
	}
	if err := each(raw, most, fn); err != nil {
		f.wrong(name, "%v", err)
	}
	return true
}

// harmless are fields of OpenAI's API that change nothing here.
var harmless = []string{"user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "store", "metadata", "service_tier",
	"prediction", "parallel_tool_calls"}

// neutral are fields that are not supported, with the values that change nothing, and a hint for others.
var neutral = map[string]struct {
	values []string
	advice string
}{
	"frequency_penalty":     {[]string{"0"}, "tokens are sampled from the model's own probabilities; leave it out"},
	"presence_penalty":      {[]string{"0"}, "tokens are sampled from the model's own probabilities; leave it out"},
	"repetition_penalty":    {[]string{"1"}, "tokens are sampled from the model's own probabilities; leave it out"},
	"logit_bias":            {[]string{"{}"}, "leave it out"},
	"modalities":            {[]string{`["text"]`}, "this server is for text only"},
	"audio":                 {nil, "this server is for text only"},
	"functions":             {[]string{"[]"}, "send tools"},
	"function_call":         {nil, "send tool_choice"},
	"reasoning_effort":      {nil, `send chat_template_kwargs, such as {"enable_thinking": false}`},
	"verbosity":             {[]string{`"medium"`}, "leave it out"},
	"web_search_options":    {nil, "this server has no search"},
	"suffix":                {[]string{`""`}, "leave it out"},
	"min_tokens":            {[]string{"0"}, "leave it out"},
	"length_penalty":        {[]string{"1"}, "leave it out"},
	"use_beam_search":       {[]string{"false"}, "leave it out"},
	"add_generation_prompt": {[]string{"true"}, "leave it out"},
}

// done refuses fields that were not read: unsupported ones, and unknown ones.
func (f *fields) done() error {
	if f.err != nil {
		return f.err
	}
	for _, name := range slices.Sorted(maps.Keys(f.all)) {
		raw := f.all[name]
		if isNull(raw) || slices.Contains(harmless, name) {
			continue
		}
		if n, ok := neutral[name]; !ok {
			return refusal.Field(brief(name), "unknown field; docs/serve.md lists the supported ones")
		} else if !slices.ContainsFunc(n.values, func(v string) bool { return same(v, compact(raw)) }) {
			return refusal.Field(name, "found %s, which is not supported; %s", brief(raw), n.advice)
		}
	}
	return nil
}

// same reports whether two values are equal; numbers may be written differently.
func same(a, b string) bool {
	x, err := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	return a == b || err == nil && err2 == nil && x == y
}

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}
