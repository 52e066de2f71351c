package dataset

import (
	"strings"

	"github.com/seed-7879b91d/grpo/data"
)

// assertion makes the typed test of Python assertions.
func (t *looseTest) assertion(out data.Test) (data.Test, error) {
	if strings.TrimSpace(t.Assert) == "" {
		return out, refuse(BadExpected, `"assert": found blank text, expected Python such as assert f(2) == 4`)
	}
	for _, name := range t.Calls {
		if !identifier(name) {
			return out, refuse(NoFunction, `"calls": found %s, expected names of Python functions`, quoteShort(name))
		}
	}
	out.Assert, out.Setup, out.Given, out.Calls = t.Assert, t.Setup, t.Given, t.Calls
	return out, nil
}

// settleAssert checks the row against its tests: the row or each test must name what the test calls.
func (r *row) settleAssert(p *data.Problem, tests []data.Test) error {
	if p.FuncName != "" && !identifier(p.FuncName) {
		return refuse(NoFunction, `found %s, expected the name of a Python function in "fn_name"`, quoteShort(p.FuncName))
	}
	for i := range tests {
		if p.FuncName == "" && len(tests[i].Calls) == 0 {
			return refuse(NoFunction, `tests[%d]: the name of the function is missing; expected "fn_name" in the row, or "calls" in the test`, i)
		}
	}
	if p.Checker != "" || p.Tolerance != 0 {
		return refuse(BadField, `"checker" and "tolerance" do not apply to tests with "assert"; leave them out`)
	}
	return nil
}
