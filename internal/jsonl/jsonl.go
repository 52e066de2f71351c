// Package jsonl reads and writes JSON Lines. Reading is strict: an unknown field, a wrong type or text after the value is
// an input error that names the file and the line. The package does not know what the lines mean.
package jsonl

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Marshal is json.Marshal without HTML escapes: programs and special tokens stay readable, and <, > and & take one byte
// instead of six.
func Marshal(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// List is a list that refuses null elements, which encoding/json would read as zero.
type List[T any] []T

// UnmarshalJSON refuses null elements.
func (l *List[T]) UnmarshalJSON(text []byte) error {
	var list []*T
	if err := json.Unmarshal(text, &list); err != nil || list == nil {
		return err
	}
	*l = make(List[T], len(list))
	for i, v := range list {
		if v == nil {
			return &json.UnmarshalTypeError{Value: "null", Type: reflect.TypeFor[T]()}
		}
		(*l)[i] = *v
	}
	return nil
}

// Each decodes every non-blank line of r into a new T and calls fn with its 1-based line number. name names r in
// messages. If fn returns an input error, it is prefixed with name:line.
func Each[T any](r io.Reader, name string, fn func(line int, v T) error) error {
	return each(r, name, true, fn)
}

// EachLoose is Each for records of other programs: unknown fields are ignored.
func EachLoose[T any](r io.Reader, name string, fn func(line int, v T) error) error {
	return each(r, name, false, fn)
}

func each[T any](r io.Reader, name string, strict bool, fn func(line int, v T) error) error {
	br := bufio.NewReaderSize(r, 1<<16)
	for line := 1; ; line++ {
		raw, err := br.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return fmt.Errorf("%s:%d: %w", name, line, err)
		}
		if line == 1 {
			raw = bytes.TrimPrefix(raw, []byte("\ufeff")) // the byte order mark that some editors and shells write
		}
		if text := bytes.TrimSpace(raw); len(text) > 0 {
			var v T
			if err := decode(text, strict, &v); err != nil {
				return badinput.Errorf("%s:%d: %w%s", name, line, err, expectedFields(err, text, &v))
			}
			if ferr := fn(line, v); ferr != nil {
				if badinput.Is(ferr) {
					return fmt.Errorf("%s:%d: %w", name, line, ferr)
				}
				return ferr
			}
		}
		if err == io.EOF {
			return nil
		}
	}
}

// EachComplete calls fn with every line of a file that may still be written: a last line without a newline is left out. The file
// may be compressed (PackedSuffix). An error of fn becomes an input error that names the file and the line.
func EachComplete(path string, fn func(line []byte) error) error {
	f, err := open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	at, refused, err := lines(f, fn)
	switch {
	case refused != nil:
		return DamagedLine(path, at, refused)
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// DamagedLine is the error of an invalid line in a record, with what to do about it.
func DamagedLine(path string, line int, err error) error {
	return badinput.Errorf("%s:%d: %w; fix that line, or bring the file back from a copy", path, line, err)
}

// lines calls fn with every complete line, until fn returns an error.
func lines(r io.Reader, fn func(line []byte) error) (at int, refused, err error) {
	in := bufio.NewReaderSize(r, 1<<16)
	for at = 1; ; at++ {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return at, nil, nil
		}
		if err != nil {
			return at, nil, err
		}
		if err := fn(bytes.TrimSpace(line)); err != nil {
			return at, err, nil
		}
	}
}

// OfKind reads the complete lines of a file with that member "kind"; "" selects lines without one.
func OfKind[T any](path, kind string) (all []T, err error) {
	err = EachComplete(path, func(line []byte) error {
		var is struct{ Kind string }
		if err := json.Unmarshal(line, &is); err != nil || is.Kind != kind {
			return err
		}
		var v T
		err := json.Unmarshal(line, &v)
		all = append(all, v)
		return err
	})
	return all, err
}

func decode(text []byte, strict bool, v any) error {
	if !utf8.Valid(text) {
		return errors.New("bytes that are not UTF-8")
	}
	if at := LoneSurrogate(text); at >= 0 {
		return fmt.Errorf(`\u%04x is half of a surrogate pair`, EscapedUnit(text[at:]))
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if strict {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(v); err != nil {
		return Explain(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("more than one JSON value on the line")
	}
	path := ""
	if strict {
		path = DuplicateKey(text)
	}
	if path = cmp.Or(path, inAnotherCase(text, func(name string) bool { return strict || hasField(v, name) })); path != "" {
		return fmt.Errorf("field %q is there twice; leave one of them out", path)
	}
	return nil
}

// hasField reports whether the struct that v points to has a field of that name.
func hasField(v any, name string) bool {
	t := reflect.TypeOf(v).Elem()
	for i := 0; t.Kind() == reflect.Struct && i < t.NumField(); i++ {
		if field, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); strings.EqualFold(cmp.Or(field, t.Field(i).Name), name) {
			return true
		}
	}
	return false
}

// expectedFields names the fields of v, if the error is that the object itself, not one inside it, has another.
func expectedFields(err error, text []byte, v any) string {
	quoted, unknown := strings.CutPrefix(err.Error(), "json: unknown field ")
	var object map[string]json.RawMessage
	if name, uerr := strconv.Unquote(quoted); !unknown || uerr != nil || json.Unmarshal(text, &object) != nil || object[name] == nil {
		return ""
	}
	var fields []string
	t := reflect.TypeOf(v).Elem()
	for i := 0; t.Kind() == reflect.Struct && i < t.NumField(); i++ {
		if field, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); field != "" && field != "-" {
			fields = append(fields, field)
		}
	}
	if len(fields) == 0 {
		return ""
	}
	return "; the fields are " + strings.Join(fields, ", ")
}

// Explain words an error of encoding/json for users.
func Explain(err error) error {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		if kind.Field == "" {
			return fmt.Errorf("found a JSON %s, expected %s", kind.Value, ExpectedType(kind))
		}
		return fmt.Errorf("field %q: found a JSON %s, expected %s", kind.Field, kind.Value, ExpectedType(kind))
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the JSON value ends too early")
	}
	return err
}

// ExpectedType is the expected type, in JSON's terms.
func ExpectedType(err *json.UnmarshalTypeError) string {
	t := err.Type
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		if strings.HasPrefix(err.Value, "number ") {
			return "a number nearer to 0"
		}
		return "a number"
	}
	return "a whole number"
}
