package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/seed-7879b91d/grpo/data/match"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
)

// row is one record of a file. A cell is a string (an unquoted JSON string) or a json.RawMessage (any
// other JSON value); null cells are omitted.
type row struct {
	where  string // file:line, for messages
	source string // the collection, unless the row names its own
	line   []byte // a line of JSON Lines that split has not parsed yet
	cells  map[string]any
	others []string // the unread columns
	size   int      // approximate, in bytes

	keep    bool     // the cells of unread columns, too
	answers match.By // how to match an answer if the row does not say; "": unknown
}

// Reason says why a row was refused. The set is closed, so that refusals can be counted.
type Reason string

const (
	NotJSON      Reason = "not JSON"
	NotText      Reason = "not Unicode text"
	NoStatement  Reason = "no statement"
	NoTests      Reason = "no tests"
	BadTests     Reason = "tests of no known shape"
	MixedKinds   Reason = "tests of both kinds"
	NoFunction   Reason = "no function name"
	BadArguments Reason = "arguments unclear"
	BadExpected  Reason = "expected value unclear"
	BadField     Reason = "field of the wrong type"
	Duplicate    Reason = "duplicate"
	Doubled      Reason = "a field twice"
)

// Refused is a row that did not become a problem.
type Refused struct {
	// Where is the file and the line, or the row of a Parquet file, both from 1.
	Where  string `json:"where"`
	Reason Reason `json:"reason"`
	// Detail names the field, what was found there and what was expected.
	Detail string `json:"detail"`
}

func (r *Refused) Error() string { return fmt.Sprintf("%s: %s: %s", r.Where, r.Reason, r.Detail) }

// refuse makes the error for a row that is refused; the caller fills in Where.
func refuse(reason Reason, format string, args ...any) error {
	return &Refused{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}

// cell is a value in a line of JSON Lines.
type cell struct{ value any }

// UnmarshalJSON unquotes a string and keeps any other value as it is.
func (c *cell) UnmarshalJSON(raw []byte) error {
	if raw[0] == '"' {
		c.value = unquote(raw)
	} else {
		c.value = json.RawMessage(bytes.Clone(raw))
	}
	return nil
}

// split parses a line of JSON Lines into cells.
func (r *row) split() error {
	if r.line == nil {
		return nil
	}
	if err := checkText(r.line); err != nil {
		return err
	}
	var fields map[string]*cell // nil for null
	if err := json.Unmarshal(r.line, &fields); err != nil {
		return refuse(NotJSON, "%s", explainJSON(err))
	}
	if path := jsonl.DuplicateKey(r.line); path != "" {
		return refuse(Doubled, "%q is there twice; leave one of them out", path)
	}
	r.line, r.cells = nil, make(map[string]any, len(fields))
	for name, c := range fields {
		if !readColumns[name] {
			r.others = append(r.others, name)
		}
		if c != nil && (r.keep || readColumns[name]) {
			r.cells[name] = c.value
		}
	}
	return nil
}

// jsonCell is a cell as JSON that is not yet validated. Collections often store JSON in a string, which it unpacks.
func jsonCell(value any) (json.RawMessage, error) {
	s, ok := value.(string)
	if !ok {
		return value.(json.RawMessage), nil
	}
	raw := bytes.TrimSpace([]byte(s))
	if len(raw) == 0 {
		raw = []byte(" ") // not valid JSON, but callers may look at raw[0]
	}
	return raw, checkText(raw)
}

// noRepeatedKeys refuses repeated keys in JSON that was stored in a string. JSON that is directly in the line was checked by split.
func noRepeatedKeys(name string, cell any, raw json.RawMessage) error {
	if _, inText := cell.(string); inText {
		if path := jsonl.DuplicateKey(raw); path != "" {
			return refuse(Doubled, "%q: %q is there twice; leave one of them out", name, path)
		}
	}
	return nil
}

// decode is json.Unmarshal for the named cell. Invalid JSON is refused as NotJSON, a value that does not
// fit v for the given reason.
func decode(name string, raw json.RawMessage, v any, reason Reason) error {
	err := json.Unmarshal(raw, v)
	if err == nil {
		return nil
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		reason = NotJSON
	}
	return refuse(reason, "%q: %s", name, explainJSON(err))
}

// textCell is a cell that must be a string; absent and null give "".
func (r *row) textCell(name string) (string, error) {
	switch v := r.cells[name].(type) {
	case nil:
		return "", nil
	case string:
		if !utf8.ValidString(v) {
			return "", refuse(NotText, "%q holds bytes that are not UTF-8", name)
		}
		return v, nil
	default:
		return "", refuse(BadField, "%q: found %s, expected a string", name, kindOfJSON(v.(json.RawMessage)))
	}
}

// numberCell is a cell that must be a number of at least 0; absent and null give 0.
func (r *row) numberCell(name string) (float64, error) {
	switch v := r.cells[name].(type) {
	case nil:
		return 0, nil
	case json.RawMessage:
		if x, err := strconv.ParseFloat(string(v), 64); err == nil && x >= 0 {
			return x, nil
		}
		return 0, refuse(BadField, "%q: found %s, expected a number of at least 0", name, quoteShort(string(v)))
	default:
		return 0, refuse(BadField, "%q: found a string, expected a number of at least 0", name)
	}
}

// largest is the largest whole number that is read: no limit of time or memory is larger.
const largest = 1 << 40

// wholeCell is numberCell for whole numbers.
func (r *row) wholeCell(name string) (int64, error) {
	x, err := r.numberCell(name)
	if err == nil && (x > largest || x != float64(int64(x))) {
		err = refuse(BadField, "%q: found %v, expected a whole number of %d at most", name, x, int64(largest))
	}
	return int64(x), err
}

// checkText refuses JSON whose strings would silently change: encoding/json replaces invalid UTF-8 and
// half a surrogate pair by U+FFFD, and no program could print the expected bytes then.
func checkText(raw []byte) error {
	if !utf8.Valid(raw) {
		return refuse(NotText, "bytes that are not UTF-8")
	}
	if at := jsonl.LoneSurrogate(raw); at >= 0 {
		return refuse(NotText, `\u%04x is half of a surrogate pair`, jsonl.EscapedUnit(raw[at:]))
	}
	return nil
}

// unquote decodes a JSON string that is valid and has passed checkText. Every byte of a data set passes
// through it twice, so it copies whole stretches between escapes.
func unquote(raw []byte) string {
	raw = raw[1 : len(raw)-1]
	next := bytes.IndexByte(raw, '\\')
	if next < 0 {
		return string(raw)
	}
	out := make([]byte, 0, len(raw))
	for ; next >= 0; next = bytes.IndexByte(raw, '\\') {
		out = append(out, raw[:next]...)
		raw = raw[next:]
		switch raw[1] {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			u := jsonl.EscapedUnit(raw)
			if utf16.IsSurrogate(rune(u)) {
				raw = raw[6:]
				out = utf8.AppendRune(out, utf16.DecodeRune(rune(u), rune(jsonl.EscapedUnit(raw))))
			} else {
				out = utf8.AppendRune(out, rune(u))
			}
			raw = raw[4:]
		default: // a quote, a backslash or a slash
			out = append(out, raw[1])
		}
		raw = raw[2:]
	}
	return string(append(out, raw...))
}

// explainJSON says where JSON is invalid, as it is with the NaN and Infinity that Python writes.
func explainJSON(err error) string {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Sprintf("%v (byte %d)", syntax, syntax.Offset)
	}
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		if kind.Field == "" {
			return fmt.Sprintf("found a JSON %s, expected an object", kind.Value)
		}
		return fmt.Sprintf("%q: found a JSON %s, expected %s", kind.Field, kind.Value, jsonl.ExpectedType(kind))
	}
	return err.Error()
}

// kindOfJSON names the type of a JSON value in a message.
func kindOfJSON(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

func isValue(raw json.RawMessage) bool { return raw != nil && raw[0] != 'n' }

func oneElement(raw json.RawMessage) bool {
	var list []json.RawMessage
	return raw[0] == '[' && json.Unmarshal(raw, &list) == nil && len(list) == 1
}

// quoteShort quotes a text and shortens it for a message of one line.
func quoteShort(s string) string {
	if len(s) <= 40 {
		return strconv.Quote(s)
	}
	cut := 37
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strconv.Quote(s[:cut] + "…")
}

// wholeNumber returns the digits of a JSON number that has neither a fraction nor an exponent.
func wholeNumber(raw json.RawMessage) (string, bool) {
	digits := bytes.TrimPrefix(raw, []byte("-"))
	if len(digits) == 0 || len(bytes.Trim(digits, "0123456789")) > 0 {
		return "", false
	}
	return string(raw), true
}
