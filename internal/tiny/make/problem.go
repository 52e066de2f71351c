package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/data"
)

// family is an op whose result is given back in one way.
type family struct {
	op
	output
}

func (f family) String() string { return f.op.name + "/" + f.output.name }

// byOp are all families, those of one op together, in the order of the tables.
func byOp() [][]family {
	all := make([][]family, len(ops))
	for i, o := range ops {
		for _, out := range outputs {
			if slices.Contains(out.of, o.out) {
				all[i] = append(all[i], family{o, out})
			}
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
		text = "Write a function {f}({args}) that takes " + given + " and " + result + "."
	case p.call:
		text = "Define {f}({args}), which takes " + given + " and " + result + "."
	case p.frame%3 == 0:
		text = "Read " + given + " from one line. " + capital(result) + "."
	case p.frame%3 == 1:
		text = "The input is one line with " + given + ". " + capital(result) + "."
	default:
		text = "Given one line with " + given + ", " + result + "."
	}
	return p.fill(strings.ReplaceAll(text, "{args}", p.args()))
}

// result is what is wanted of the program, as a pattern.
func (p problem) result() string {
	return strings.ReplaceAll(p.output.says, "{E}", p.op.says[p.saying])
}

func (p problem) args() string {
	if p.in == pair {
		return "{v}, {u}"
	}
	return "{v}"
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// parts are the patterns that a program is made of.
type parts struct{ read, code, give string }

func (p problem) right() parts { return parts{inputs[p.in].read, p.op.code, p.output.code} }

// program puts parts together.
func (p problem) program(use parts) string {
	lines, expression := "", use.code
	if at := strings.LastIndex(use.code, "\n"); at >= 0 {
		lines, expression = use.code[:at+1], use.code[at+1:]
	}
	body := lines + strings.ReplaceAll(use.give, "{E}", expression)
	if !p.call {
		return p.fill(use.read + body)
	}
	indented := strings.ReplaceAll("\n"+strings.TrimSuffix(body, "\n"), "\n", "\n    ")
	return p.fill("def {f}(" + p.args() + "):" + indented + "\n")
}

// tests draws n inputs and computes what is expected of them. Where the result is one of two, both occur.
func (p problem) tests(n int, rng *rand.Rand) []data.Test {
	in := inputs[p.in]
	var tests []data.Test
	seen := map[string]bool{}
	results := map[any]int{}
	for try := 0; len(tests) < n && try < 500; try++ {
		v := in.draw(rng, p.env)
		key, result := fmt.Sprint(v), p.eval(p.env, v)
		if seen[key] || p.out == boolean && results[result] == n/2 && try < 400 {
			continue
		}
		seen[key] = true
		if p.out == boolean {
			results[result]++
		}
		tests = append(tests, p.test(v, p.show(p.env, result)))
	}
	return tests
}

func (p problem) test(v, expected any) data.Test {
	if p.call {
		args := []json.RawMessage{encode(v)}
		if two, ok := v.([2]int); ok {
			args = []json.RawMessage{encode(two[0]), encode(two[1])}
		}
		return data.Test{Args: args, Returns: encode(expected)}
	}
	line := fmt.Sprint(v)
	switch v := v.(type) {
	case [2]int:
		line = fmt.Sprint(v[0], v[1])
	case []int, []string:
		line = join(v, " ")
	}
	return data.Test{Stdin: line + "\n", Stdout: expected.(string) + "\n"}
}

func encode(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // a value of the shapes above
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

// record is the problem as a line of a task file, with so many tests.
func (p problem) record(id string, tests int, rng *rand.Rand) data.Record {
	r := data.Record{Problem: p.task(), Tests: p.tests(tests, rng)}
	r.ID, r.Metadata = id, encode(map[string]string{"family": p.family.String()})
	return r
}
