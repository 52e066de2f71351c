package data

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/seed-7879b91d/grpo/internal/jsonl"
)

// wireTest is a test as JSON: {"stdin","stdout"}, {"args","returns"}, {"assert"} or one key of MatchKeys, never a mixture.
type wireTest struct {
	Stdin    *string            `json:"stdin,omitempty"`
	Stdout   *string            `json:"stdout,omitempty"`
	Args     *[]json.RawMessage `json:"args,omitempty"`
	Returns  json.RawMessage    `json:"returns,omitempty"`
	UnwrapOK bool               `json:"unwrap_ok,omitempty"`
	AssertKeys
	MatchKeys
	Public bool `json:"public,omitempty"`
	Limits
}

// AssertKeys are the assertions of a Test as JSON.
type AssertKeys struct {
	Assert string   `json:"assert,omitempty"`
	Setup  string   `json:"setup,omitempty"`
	Given  string   `json:"given,omitempty"`
	Calls  []string `json:"calls,omitempty"`
}

func (k *AssertKeys) none() bool {
	return k.Assert == "" && k.Setup == "" && k.Given == "" && k.Calls == nil
}

func (t *Test) wire() wireTest {
	switch t.Kind() {
	case Assert:
		return wireTest{AssertKeys: AssertKeys{t.Assert, t.Setup, t.Given, t.Calls}, Public: t.Public, Limits: t.Limits}
	case Call:
		return wireTest{Args: &t.Args, Returns: t.Returns, UnwrapOK: t.UnwrapOK, Public: t.Public, Limits: t.Limits}
	case Answer:
		return wireTest{MatchKeys: t.Match.keys(), Public: t.Public}
	}
	return wireTest{Stdin: &t.Stdin, Stdout: &t.Stdout, Public: t.Public, Limits: t.Limits}
}

func (v *wireTest) test() (Test, error) {
	noStdin, noCall := v.Stdin == nil && v.Stdout == nil, v.Args == nil && v.Returns == nil && !v.UnwrapOK
	match, matches := v.Match()
	switch {
	case !v.AssertKeys.none():
		if k := v.AssertKeys; k.Assert != "" && noStdin && noCall && matches == 0 {
			return Test{Assert: k.Assert, Setup: k.Setup, Given: k.Given, Calls: k.Calls, Public: v.Public, Limits: v.Limits}, nil
		}
		return Test{}, errors.New(`"setup", "given" and "calls" need "assert", and no keys of other kinds of tests`)
	case matches > 0:
		if matches == 1 && noStdin && noCall && v.Limits == (Limits{}) {
			return Test{Match: match, Public: v.Public}, nil
		}
		return Test{}, errors.New(`a test has only one of "exact", "regex", "json_schema" and "math", and then no keys of programs`)
	case noCall && v.Stdin != nil && v.Stdout != nil:
		return Test{Stdin: *v.Stdin, Stdout: *v.Stdout, Public: v.Public, Limits: v.Limits}, nil
	case noStdin && v.Args != nil && v.Returns != nil:
		return Test{Args: *v.Args, Returns: v.Returns, UnwrapOK: v.UnwrapOK, Public: v.Public, Limits: v.Limits}, nil
	}
	return Test{}, errors.New(`a test has either "stdin" and "stdout", or "args" and "returns", or "assert"`)
}

// MarshalJSON writes {"stdin","stdout"}, {"args","returns"}, {"assert"} or the one key of MatchKeys.
func (t Test) MarshalJSON() ([]byte, error) { return jsonl.Marshal(t.wire()) }

// UnmarshalJSON reads what MarshalJSON writes. It fails where a test is of both kinds or of none.
func (t *Test) UnmarshalJSON(text []byte) error {
	var v wireTest
	err := json.Unmarshal(text, &v)
	if err == nil {
		*t, err = v.test()
	}
	return err
}

// EncodeTests writes a list of tests as json.Marshal would, but without its three passes over every byte:
// lists of tests can have hundreds of megabytes.
func EncodeTests(tests []Test) ([]byte, error) {
	list := make([]wireTest, len(tests))
	for i := range tests {
		list[i] = tests[i].wire()
	}
	return jsonl.Marshal(list)
}

// DecodeTests reads what EncodeTests writes.
func DecodeTests(text []byte) ([]Test, error) {
	var list []wireTest
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, err
	}
	tests := make([]Test, len(list))
	for i := range list {
		var err error
		if tests[i], err = list[i].test(); err != nil {
			return nil, fmt.Errorf("tests[%d]: %w", i, err)
		}
	}
	return tests, nil
}
