package dataset

import (
	"crypto/sha256"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
)

// The columns that are read; those with several names in order of preference.
var (
	statementColumns = []string{"prompt", "question", "problem"}
	testColumns      = []string{"tests", "ground_truth"}
	readColumns      = map[string]bool{
		"prompt": true, "question": true, "problem": true, "tests": true, "ground_truth": true,
		"id": true, "source": true, "starter_code": true, "kind": true, "fn_name": true,
		"time_limit_ms": true, "memory_limit_mb": true, "tolerance": true, "checker": true,
		"metadata": true, "public_tests": true, "answer": true, "match": true,
	}
)

// normalised is a problem in normal form: what the store keeps.
type normalised struct {
	problem data.Problem
	light   []byte            // the problem as JSON, without its tests
	tests   []byte            // the tests as a JSON array
	columns []byte            // the unread columns, as a JSON object; empty if none are kept
	asked   [sha256.Size]byte // the hash of the problem without its id
}

// writeTo writes the whole problem as one line of the normal form, without the line feed.
func (n *normalised) writeTo(w io.Writer) error {
	for _, part := range [][]byte{n.light[:len(n.light)-1], []byte(`,"tests":`), n.tests, []byte("}")} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// normalise turns a row into a problem, or returns a *Refused that says why it cannot.
func normalise(r *row) (*normalised, error) {
	if err := r.split(); err != nil {
		return nil, err
	}
	p := data.Problem{}
	meta, err := r.describe(&p)
	if err != nil {
		return nil, err
	}
	tests, err := r.readTests(&p, meta)
	if err != nil {
		return nil, err
	}
	p.NumTests = len(tests)
	n := &normalised{problem: p}
	if n.tests, err = data.EncodeTests(tests); err != nil {
		return nil, err
	}
	if n.columns, err = r.columns(); err != nil {
		return nil, err
	}
	n.problem.ID = ""
	if n.light, err = jsonl.Marshal(&n.problem); err != nil {
		return nil, err
	}
	h := sha256.New()
	n.writeTo(h) // a hash never fails
	h.Sum(n.asked[:0])
	if n.problem.ID = p.ID; p.ID == "" {
		// Without an id, a problem is named by its content, so that the name stays when rows move.
		n.problem.ID = p.Source + "-" + sum(h)[:12]
	}
	n.light, err = jsonl.Marshal(&n.problem)
	return n, err
}

// columns are the unread columns of the row, and its "answer", of which the test may have only the final answer.
func (r *row) columns() ([]byte, error) {
	kept := map[string]any{}
	for _, name := range append([]string{"answer"}, r.others...) {
		if v := r.cells[name]; r.keep && v != nil {
			kept[name] = v
		}
	}
	if len(kept) == 0 {
		return nil, nil
	}
	return jsonl.Marshal(kept)
}

// rowMetadata is what the normaliser itself reads in the metadata of a row or a test.
type rowMetadata struct {
	FuncName string `json:"func_name"`
}

// describe fills in everything except the tests.
func (r *row) describe(p *data.Problem) (meta rowMetadata, err error) {
	if p.Statement, err = r.statement(); err != nil {
		return meta, err
	}
	texts := []struct {
		name string
		to   *string
	}{
		{"source", &p.Source}, {"starter_code", &p.StarterCode}, {"fn_name", &p.FuncName}, {"checker", &p.Checker},
	}
	for _, t := range texts {
		if *t.to, err = r.textCell(t.name); err != nil {
			return meta, err
		}
	}
	if p.Source == "" {
		p.Source = r.source
	}
	if p.ID, err = r.id(); err != nil {
		return meta, err
	}
	if p.TimeMS, err = r.wholeCell("time_limit_ms"); err != nil {
		return meta, err
	}
	if p.MemoryMB, err = r.wholeCell("memory_limit_mb"); err != nil {
		return meta, err
	}
	if p.Tolerance, err = r.numberCell("tolerance"); err != nil {
		return meta, err
	}
	p.Metadata, meta, err = r.metadata()
	return meta, err
}

// statement is the first of the statement columns that has text.
func (r *row) statement() (string, error) {
	for _, name := range statementColumns {
		s, err := r.textCell(name)
		if raw, _ := r.cells[name].(json.RawMessage); err != nil && len(raw) > 0 && raw[0] == '[' {
			err = refuse(BadField, `%q: found a list, expected a string; from a list of messages take the content of the user's `+
				`("From TRL or verl" in docs/tasks.md)`, name)
		}
		if err != nil {
			return "", err
		}
		if strings.TrimSpace(s) != "" {
			return s, nil
		}
	}
	return "", refuse(NoStatement, `expected text in "prompt", "question" or "problem"`)
}

// id is the row's own name: a string, or a whole number.
func (r *row) id() (string, error) {
	raw, ok := r.cells["id"].(json.RawMessage)
	if !ok {
		return r.textCell("id")
	}
	if text, ok := wholeNumber(raw); ok {
		return text, nil
	}
	return "", refuse(BadField, `"id": found %s, expected a string or a whole number`, kindOfJSON(raw))
}

// metadata is an object, an object inside a string, or absent.
func (r *row) metadata() (json.RawMessage, rowMetadata, error) {
	var meta rowMetadata
	cell := r.cells["metadata"]
	if s, ok := cell.(string); cell == nil || ok && strings.TrimSpace(s) == "" {
		return nil, meta, nil
	}
	raw, err := jsonCell(cell)
	if err != nil {
		return nil, meta, err
	}
	if string(raw) == "null" {
		return nil, meta, nil
	}
	if err := decode("metadata", raw, &meta, BadField); err != nil {
		return nil, meta, err
	}
	return raw, meta, noRepeatedKeys("metadata", cell, raw)
}

// checkKind checks the row's "kind", if it has one, against the kind of its tests.
func (r *row) checkKind(found data.Kind) error {
	s, err := r.textCell("kind")
	if err != nil || s == "" {
		return err
	}
	var said data.Kind
	if err := said.UnmarshalText([]byte(s)); err != nil {
		return refuse(BadField, `"kind": found %s, expected "stdin", "call", "answer" or "assert"`, quoteShort(s))
	}
	if said != found {
		return refuse(BadTests, `"kind" says %s, but the tests are of kind %s`, said, found)
	}
	return nil
}

// markPublic marks the first "public_tests" tests of the row as public, unless tests are marked themselves.
func (r *row) markPublic(tests []data.Test) error {
	n, err := r.wholeCell("public_tests")
	if err != nil || n == 0 {
		return err
	}
	if n > int64(len(tests)) {
		return refuse(BadField, `"public_tests": found %d, expected at most %d, the number of tests`, n, len(tests))
	}
	for i := range tests {
		if tests[i].Public {
			return refuse(BadField, `"public_tests" is %d, but tests[%d] has "public"; use one of the two`, n, i)
		}
		tests[i].Public = int64(i) < n
	}
	return nil
}

// keywords are the reserved words of Python.
var keywords = strings.Fields("False None True and as assert async await break class continue def del elif else except finally for from " +
	"global if import in is lambda nonlocal not or pass raise return try while with yield")

// identifier reports whether s is a valid name of a function in Python.
func identifier(s string) bool {
	for i, c := range s {
		if c != '_' && !unicode.IsLetter(c) && (i == 0 || !unicode.IsDigit(c)) {
			return false
		}
	}
	return s != "" && utf8.ValidString(s) && !slices.Contains(keywords, s)
}
