package dataset

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/seed-7879b91d/grpo/data"
)

// looseTest is the union of the shapes in which collections write one test:
//
//	own tasks        {"stdin","stdout"}, {"args","returns","unwrap_ok"}, {"assert"}, or one key of data.MatchKeys
//	PrimeIntellect   {"type":"stdin_stdout"|"function_call","fn_name","input","output"}
//	LiveCodeBench    {"testtype":"stdin"|"functional","input","output"}
//	Codeforces       {"input","output"}
//
// TACO's {"inputs","outputs","fn_name"} is split into such tests.
type looseTest struct {
	Stdin    *string            `json:"stdin"`
	Stdout   *string            `json:"stdout"`
	Args     *[]json.RawMessage `json:"args"`
	Returns  json.RawMessage    `json:"returns"`
	UnwrapOK bool               `json:"unwrap_ok"`
	Public   bool               `json:"public"`

	Type     string          `json:"type"`
	TestType string          `json:"testtype"`
	FnName   string          `json:"fn_name"`
	Metadata json.RawMessage `json:"metadata"`
	Input    json.RawMessage `json:"input"`
	Output   json.RawMessage `json:"output"`

	data.AssertKeys
	data.MatchKeys
	data.Limits
}

// columnTests is the shape of TACO: test n has input n and output n.
type columnTests struct {
	FnName  string            `json:"fn_name"`
	Inputs  []json.RawMessage `json:"inputs"`
	Outputs []json.RawMessage `json:"outputs"`
}

// readTests normalises the tests and determines the kind and the function name of the problem.
func (r *row) readTests(p *data.Problem, meta rowMetadata) ([]data.Test, error) {
	loose, err := r.looseTests()
	if err != nil {
		return nil, err
	}
	names := functionNames{row: p.FuncName, metadata: meta.FuncName}
	tests := make([]data.Test, len(loose))
	for i := range loose {
		kind, err := loose[i].kind(names)
		if err != nil {
			return nil, inTest(i, err)
		}
		if i == 0 {
			p.Kind = kind
		}
		if kind != p.Kind {
			return nil, refuse(MixedKinds, "tests[%d] is of kind %s, tests[0] of kind %s", i, kind, p.Kind)
		}
		if tests[i], err = loose[i].normalise(kind); err != nil {
			return nil, inTest(i, err)
		}
	}
	if err := r.checkKind(p.Kind); err != nil {
		return nil, err
	}
	if err := r.markPublic(tests); err != nil {
		return nil, err
	}
	if p.Kind == data.Answer {
		return tests, r.settleAnswer(p, tests)
	}
	r.markUnread("match")
	if p.Kind == data.Assert {
		return tests, r.settleAssert(p, tests)
	}
	p.FuncName, err = names.settle(p.Kind, loose)
	return tests, err
}

// looseTests decodes the tests column, in any of its shapes.
func (r *row) looseTests() ([]looseTest, error) {
	name, cell := "", any(nil)
	for _, name = range testColumns {
		if cell = r.cells[name]; cell != nil {
			break
		}
	}
	if s, ok := cell.(string); cell == nil || ok && s == "" {
		return r.answerTest()
	}
	r.markUnread("answer")
	raw, err := jsonCell(cell)
	if err != nil {
		return nil, err
	}
	var tests []looseTest
	switch raw[0] {
	case '[':
		var unread []string
		unread, err = decodeTests(name, raw, &tests)
		r.others = append(r.others, unread...)
	case '{':
		tests, err = decodeColumns(name, raw)
	default:
		var v any
		if err = decode(name, raw, &v, BadTests); err == nil {
			err = refuse(BadTests, "%q: found %s, expected a list of tests", name, kindOfJSON(raw))
		}
	}
	if err == nil {
		err = noRepeatedKeys(name, cell, raw)
	}
	if err == nil && len(tests) == 0 {
		err = refuse(NoTests, "%q is empty", name)
	}
	return tests, err
}

// decodeColumns turns the two columns of TACO into a list of tests.
func decodeColumns(name string, raw json.RawMessage) ([]looseTest, error) {
	var c columnTests
	if err := decode(name, raw, &c, BadTests); err != nil {
		return nil, err
	}
	if c.Inputs == nil || c.Outputs == nil {
		return nil, refuse(BadTests, `found an object without "inputs" and "outputs", expected both, or a list of tests`)
	}
	if len(c.Inputs) != len(c.Outputs) {
		return nil, refuse(BadTests, "%d inputs, but %d outputs", len(c.Inputs), len(c.Outputs))
	}
	kind := "stdin"
	if c.FnName != "" {
		kind = "function_call"
	}
	tests := make([]looseTest, len(c.Inputs))
	for i := range tests {
		tests[i] = looseTest{Type: kind, FnName: c.FnName, Input: c.Inputs[i], Output: c.Outputs[i]}
	}
	return tests, nil
}

// kind determines the kind of a test by its fields, by the type it declares, or, if it declares none, by
// whether a function to call is known.
func (t *looseTest) kind(names functionNames) (data.Kind, error) {
	if t.own() {
		return t.ownKind()
	}
	if t.Input == nil || t.Output == nil {
		return 0, refuse(BadTests, `expected "stdin" and "stdout", or "args" and "returns", or "input" and "output", `+
			`or "assert", or one of "exact", "regex", "json_schema" and "math"`)
	}
	declared := t.Type
	if declared == "" {
		declared = t.TestType
	} else if t.TestType != "" && t.TestType != t.Type {
		return 0, refuse(BadTests, `"type" says %s, but "testtype" says %s`, quoteShort(t.Type), quoteShort(t.TestType))
	}
	switch declared {
	case "stdin", "stdin_stdout":
		return data.Stdin, nil
	case "functional", "function_call", "call":
		return data.Call, nil
	case "":
	default:
		return 0, refuse(BadTests, `found type %s, expected "stdin", "stdin_stdout", "functional" or "function_call"`, quoteShort(declared))
	}
	switch {
	case t.FnName != "" || names.row != "":
		return data.Call, nil
	case names.metadata != "":
		return 0, refuse(BadTests,
			`the metadata names the function %s, but the test does not say whether to call it: expected "testtype"`, quoteShort(names.metadata))
	}
	return data.Stdin, nil
}

// own reports whether the test has the shape of own tasks. A Parquet table of tests has every field in every
// row, so that a null means nothing; only in "returns" it may be a value.
func (t *looseTest) own() bool {
	_, matches := t.Match()
	return t.Stdin != nil || t.Stdout != nil || t.Args != nil || t.Returns != nil && t.Input == nil || matches > 0 || t.Assert != ""
}

func (t *looseTest) ownKind() (data.Kind, error) {
	stdin, call := t.Stdin != nil && t.Stdout != nil, t.Args != nil && t.Returns != nil
	anyStdin, anyCall := t.Stdin != nil || t.Stdout != nil, t.Args != nil || isValue(t.Returns)
	_, matches := t.Match()
	switch {
	case t.Assert != "" && matches == 0 && !anyStdin && !anyCall && !t.UnwrapOK && !isValue(t.Input) && !isValue(t.Output):
		return data.Assert, nil
	case t.Assert != "":
		return 0, refuse(BadTests, `a test with "assert" may have "setup", "given" and "calls", and no other keys`)
	case matches == 1 && !anyStdin && !anyCall && !t.UnwrapOK && !isValue(t.Input) && !isValue(t.Output):
		return data.Answer, nil
	case matches > 0:
		return 0, refuse(BadTests, `expected only one of "exact", "regex", "json_schema" and "math", and no keys of programs beside it`)
	case isValue(t.Input) || isValue(t.Output):
	case stdin && !anyCall && !t.UnwrapOK:
		return data.Stdin, nil
	case call && !anyStdin:
		return data.Call, nil
	}
	return 0, refuse(BadTests, `expected exactly "stdin" and "stdout", or exactly "args" and "returns"`)
}

// normalise makes the typed test.
func (t *looseTest) normalise(kind data.Kind) (out data.Test, err error) {
	if min(t.TimeMS, t.MemoryMB) < 0 || max(t.TimeMS, t.MemoryMB) > largest {
		return out, refuse(BadField, "found limits of %d ms and %d MB, expected 0 to %d", t.TimeMS, t.MemoryMB, int64(largest))
	}
	out.Limits, out.Public = t.Limits, t.Public
	if kind == data.Answer {
		return t.answer()
	}
	if kind == data.Assert {
		return t.assertion(out)
	}
	if t.Stdin != nil {
		out.Stdin, out.Stdout = *t.Stdin, *t.Stdout
		return out, nil
	}
	if t.Args != nil {
		out.Args, out.Returns, out.UnwrapOK = *t.Args, t.Returns, t.UnwrapOK
		if out.UnwrapOK && !oneElement(out.Returns) {
			return out, refuse(BadExpected, `"unwrap_ok": found %s in "returns", expected a list of one element`, quoteShort(string(out.Returns)))
		}
		return out, nil
	}
	if kind == data.Stdin {
		if out.Stdin, err = stdinText("input", t.Input); err == nil {
			out.Stdout, err = stdinText("output", t.Output)
		}
		return out, err
	}
	if t.Input[0] == '"' {
		out.Args, out.Returns, err = callText(t.Input, t.Output)
		return out, err
	}
	if err := json.Unmarshal(t.Input, &out.Args); err != nil || out.Args == nil {
		return out, refuse(BadArguments, `"input": found %s, expected a list of arguments`, kindOfJSON(t.Input))
	}
	// These collections wrap some expected values in a list and others not, and nothing distinguishes them:
	// for a list of one element the element is accepted as well.
	out.Returns, out.UnwrapOK = t.Output, oneElement(t.Output)
	return out, nil
}

// stdinText is the text of an input or output: a string, or a list of lines.
func stdinText(name string, raw json.RawMessage) (string, error) {
	if s, ok := lineText(raw); ok {
		return s, nil
	}
	var lines []json.RawMessage
	if json.Unmarshal(raw, &lines) != nil || lines == nil {
		return "", refuse(BadTests, "%q: found %s, expected a string or a list of lines", name, kindOfJSON(raw))
	}
	texts := make([]string, len(lines))
	for i, line := range lines {
		s, ok := lineText(line)
		if !ok {
			return "", refuse(BadTests, "%q: line %d is %s, expected a string", name, i+1, kindOfJSON(line))
		}
		texts[i] = s
	}
	return strings.Join(texts, "\n"), nil
}

// lineText is a string, or a whole number as its digits.
func lineText(raw json.RawMessage) (string, bool) {
	if raw[0] != '"' {
		return wholeNumber(raw)
	}
	return unquote(raw), true
}

// callText reads a call that is written as text: one JSON value on each line of the input, and one JSON
// value as the output.
func callText(input, output json.RawMessage) (args []json.RawMessage, returns json.RawMessage, err error) {
	in, _ := lineText(input)
	args = []json.RawMessage{}
	if in = strings.TrimRight(in, "\n\r"); in != "" {
		for i, line := range strings.Split(in, "\n") {
			arg, err := jsonCell(line)
			if err != nil || !json.Valid(arg) {
				return nil, nil, refuse(BadArguments, `"input": line %d: found %s, expected one JSON value`, i+1, quoteShort(line))
			}
			args = append(args, arg)
		}
	}
	if output[0] != '"' {
		return nil, nil, refuse(BadExpected,
			`"output": found %s, expected a string that holds one JSON value, as "input" is a string`, kindOfJSON(output))
	}
	out := unquote(output)
	if returns, err = jsonCell(out); err != nil || !json.Valid(returns) {
		return nil, nil, refuse(BadExpected, `"output": found %s, expected one JSON value`, quoteShort(out))
	}
	return args, returns, nil
}

// functionNames are the function names that the row and its metadata give.
type functionNames struct{ row, metadata string }

// settle determines the name of the function that all tests call.
func (n functionNames) settle(kind data.Kind, tests []looseTest) (string, error) {
	if kind == data.Stdin {
		return "", nil
	}
	name := n.row
	for i := range tests {
		t := tests[i].function()
		if t != "" && name != "" && t != name {
			return "", refuse(NoFunction, "tests[%d] calls %s, others call %s", i, quoteShort(t), quoteShort(name))
		}
		if name == "" {
			name = t
		}
	}
	if name = cmp.Or(name, n.metadata); name == "" {
		return "", refuse(NoFunction, `the name of the function is missing; expected "fn_name", or "func_name" in the metadata`)
	}
	if !identifier(name) {
		return "", refuse(NoFunction, `found %s, expected the name of a Python function in "fn_name" or "func_name"`, quoteShort(name))
	}
	return name, nil
}

// function is the function name that the test itself gives, or "".
func (t *looseTest) function() string {
	var meta rowMetadata
	if t.FnName == "" && isValue(t.Metadata) {
		_ = json.Unmarshal(t.Metadata, &meta) // metadata of another shape has no function name
	}
	return t.FnName + meta.FuncName
}

// inTest adds to a refusal the test that it is about.
func inTest(i int, err error) error {
	if r, ok := err.(*Refused); ok {
		return refuse(r.Reason, "tests[%d]: %s", i, r.Detail)
	}
	return err
}
