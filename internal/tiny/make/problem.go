package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/seed-7879b91d/grpo/data"
)

// family is an op with an output.
type family struct {
	op
	output
}

func (f family) String() string { return f.op.name + "/" + f.output.name }

// familiesByOp are all families, a list for each op, in the order of the tables.
func familiesByOp() [][]family {
	all := make([][]family, len(ops))
	for i, o := range ops {
		for _, out := range outputs {
			all[i] = append(all[i], family{o, out})
		}
	}
	return all
}

// problem is one instance of a family.
type problem struct {
	family
	env
}

func (f family) instance(rng *rand.Rand) problem { return problem{f, draw(rng, f.op)} }

// statement is the task in words.
func (p problem) statement() string {
	result := p.result()
	given := inputs[p.in].says
	var text string
	switch {
	case p.call && p.frame%2 == 0:
		text = "Write a function {f}({v}) that takes " + given + " and " + result + "."
	case p.call:
		text = "Define {f}({v}), which takes " + given + " and " + result + "."
	case p.frame%3 == 0:
		text = "Read " + given + " from one line. " + capital(result) + "."
	case p.frame%3 == 1:
		text = "The input is one line with " + given + ". " + capital(result) + "."
	default:
		text = "Given one line with " + given + ", " + result + "."
	}
	return p.fill(text)
}

// result describes in words what the program prints or returns, with placeholders.
func (p problem) result() string {
	return strings.ReplaceAll(p.output.says, "{E}", p.op.says[p.saying])
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// program is a program that solves the problem.
func (p problem) program() string {
	body := strings.ReplaceAll(p.output.code, "{E}", p.op.code)
	if p.call {
		return p.fill("def {f}({v}):\n    " + body)
	}
	return p.fill(inputs[p.in].read + body)
}

// tests draws n inputs, and computes their expected results.
func (p problem) tests(n int, rng *rand.Rand) []data.Test {
	var tests []data.Test
	seen := map[string]bool{}
	for len(tests) < n {
		v := inputs[p.in].draw(rng, p.env)
		if key := fmt.Sprint(v); !seen[key] {
			seen[key] = true
			tests = append(tests, p.test(v, p.show(p.env, v, p.eval(p.env, v))))
		}
	}
	return tests
}

func (p problem) test(v, expected any) data.Test {
	if p.call {
		return data.Test{Args: []json.RawMessage{encode(v)}, Returns: encode(expected)}
	}
	line := fmt.Sprint(v)
	switch v := v.(type) {
	case []int:
		line = join(v, " ")
	case []string:
		line = join(v, " ")
	}
	return data.Test{Stdin: line + "\n", Stdout: expected.(string) + "\n"}
}

func encode(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // all shapes can be encoded
	}
	return text
}

// task is the problem without its tests.
func (p problem) task() data.Problem {
	t := data.Problem{Source: "tiny", Statement: p.statement(), Kind: data.Stdin}
	if p.call {
		t.Kind, t.FuncName = data.Call, p.f
	}
	return t
}

// record is the problem with tests, as a row of a task file.
func (p problem) record(id string, tests int, rng *rand.Rand) data.Record {
	r := data.Record{Problem: p.task(), Tests: p.tests(tests, rng)}
	r.ID, r.Metadata = id, encode(map[string]string{"family": p.family.String()})
	return r
}
