// Package body parses the JSON body of a request: one object with known fields, and nothing after it.
package body

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
)

// Read reads the body of a request into a struct, and returns its text too.
func Read(r *http.Request, into any) (text []byte, err error) {
	if text, err = ReadAll(r.Body); err != nil {
		return nil, refusal.BodyError(err)
	}
	return text, Decode(text, into)
}

// Decode parses a body into a struct.
func Decode(text []byte, into any) error {
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(into); err != nil {
		return Explain(err, into)
	}
	if bytes.Equal(bytes.TrimSpace(text), []byte("null")) {
		return refusal.Errorf(http.StatusBadRequest, "the body: found null, expected a JSON object")
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return refusal.Errorf(http.StatusBadRequest, "the body: found more after its JSON object, expected one object alone")
	}
	return Check(text)
}

// ReadAll reads to the end. Unlike io.ReadAll it never copies while it grows, only once at the end, so a body that turns out to be
// too large takes no more memory than its size.
func ReadAll(in io.Reader) ([]byte, error) {
	const least, most = 4 << 10, 4 << 20
	var full [][]byte
	piece := make([]byte, 0, least)
	for {
		n, err := in.Read(piece[len(piece):cap(piece)])
		piece = piece[:len(piece)+n]
		switch {
		case err == io.EOF && full == nil:
			return piece, nil
		case err == io.EOF:
			return slices.Concat(append(full, piece)...), nil
		case err != nil:
			return nil, err
		case len(piece) == cap(piece):
			full = append(full, piece)
			piece = make([]byte, 0, min(2*len(piece), most))
		}
	}
}

// Explain words an error of encoding/json for the client, with the field's name.
func Explain(err error, into any) error {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) && kind.Field != "" {
		return refusal.Field(kind.Field, "found %s, expected %s", article(kind.Value), article(kind.Type.Kind().String()))
	}
	if errors.As(err, &kind) {
		return refusal.Errorf(http.StatusBadRequest, "the body: found %s, expected a JSON object", article(kind.Value))
	}
	if name, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
		name = strings.Trim(refusal.Truncate(name, 100), `"`)
		return refusal.Field(name, "is not known here; there are: %s", strings.Join(fields(reflect.TypeOf(into).Elem()), ", "))
	}
	var syntax *json.SyntaxError
	if errors.Is(err, io.EOF) || errors.As(err, &syntax) && syntax.Offset == 0 { // from a decoder, or from an empty text
		return refusal.Errorf(http.StatusBadRequest, "the body is empty, expected a JSON object")
	}
	return refusal.Errorf(http.StatusBadRequest, "the body is no JSON object: %s",
		refusal.Truncate(strings.TrimPrefix(err.Error(), "json: "), 200))
}

// words names the types of Go as a client knows them.
var words = map[string]string{"int": "a whole number", "int32": "a whole number", "int64": "a whole number",
	"uint64": "a whole number, 0 or more", "float64": "a number", "float32": "a number", "bool": "true or false", "slice": "a list",
	"struct": "an object", "map": "an object", "array": "a list",
	"object": "an object"}

func article(kind string) string {
	if word, ok := words[kind]; ok {
		return word
	}
	if strings.HasPrefix(kind, "number ") {
		return strings.TrimPrefix(kind, "number ")
	}
	return "a " + kind
}

// fields lists the JSON names of a struct's fields.
func fields(t reflect.Type) (all []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			all = append(all, fields(f.Type)...)
		} else if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			all = append(all, name)
		}
	}
	return all
}

// Write answers with JSON. A write error means that the client is gone.
func Write(w http.ResponseWriter, status int, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(text, '\n'))
	return nil
}
