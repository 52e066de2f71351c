package reward

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// checkerFaults is Python that returns for each checker why it cannot be used, "" if it can. It compiles checkers, but does not run them.
const checkerFaults = `
import symtable

def fault(source):
    try:
        compile(source, "checker", "exec", dont_inherit=True)
        names = symtable.symtable(source, "checker", "exec")
    except SyntaxError as problem:
        return "%s: %s (line %s)" % (type(problem).__name__, problem.msg, problem.lineno)
    except BaseException as problem:
        return "%s: %s" % (type(problem).__name__, problem)
    try:
        name = names.lookup("check")
    except KeyError:
        name = None
    if name is not None and (name.is_assigned() or name.is_imported()) or "import *" in source:
        return ""
    return "found no function check(input, output, expected)"

def faults(sources):
    return [fault(s) for s in sources]
`

// CheckerFault is a problem whose checker cannot judge any answer.
type CheckerFault struct {
	Index int // of the problem
	Why   string
}

// CheckerFaults looks at the checkers of problems, each distinct one once, and gives the problems whose checker does
// not compile or has no function check, in order.
func (j *Judge) CheckerFaults(ctx context.Context, problems []data.Problem) (faults []CheckerFault, err error) {
	why := map[string]string{}
	var distinct []string
	for i := range problems {
		c := problems[i].Checker
		if _, seen := why[c]; !seen && c != "" {
			why[c], distinct = "", append(distinct, c)
		}
	}
	for rest := distinct; len(rest) > 0; {
		n, size := 0, 0
		for n < len(rest) && n < 500 && size < 1<<20 {
			size += len(rest[n])
			n++
		}
		said, err := j.faultsOf(ctx, rest[:n])
		if err != nil {
			return nil, fmt.Errorf("look at the checkers of problems: %w", err)
		}
		for i, text := range said {
			why[rest[i]] = text
		}
		rest = rest[n:]
	}
	for i := range problems {
		if text := why[problems[i].Checker]; text != "" {
			faults = append(faults, CheckerFault{i, text})
		}
	}
	return faults, nil
}

// faultsOf checks some checkers. If one of several crashes Python, each is checked alone.
func (j *Judge) faultsOf(ctx context.Context, sources []string) (faults []string, err error) {
	a, err := call(ctx, j.checker.runner, "", sandbox.Program{Code: checkerFaults, Call: "faults"}, sandbox.Limits{CPU: time.Minute}, sources)
	switch {
	case err != nil:
		return nil, err
	case a.note == "":
		if err := json.Unmarshal(a.Value, &faults); err != nil || len(faults) != len(sources) {
			return nil, fmt.Errorf("python answered %.60s for %d checkers", a.Value, len(sources))
		}
		return faults, nil
	case len(sources) == 1:
		return []string{a.note}, nil
	}
	for i := range sources {
		one, err := j.faultsOf(ctx, sources[i:i+1])
		if err != nil {
			return nil, err
		}
		faults = append(faults, one...)
	}
	return faults, nil
}
