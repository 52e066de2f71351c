package reward

import (
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/testvariants"
	"github.com/seed-7879b91d/grpo/reward/fusion"
	"github.com/seed-7879b91d/grpo/reward/fusion/fusiontest"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// localPool opens a pool of cells, or skips the test if there is no Python or no isolation.
func localPool(t *testing.T) *sandbox.Pool {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3 to run programs with")
	}
	pool, err := sandbox.Open(t.Context(), sandbox.Options{})
	if badinput.Is(err) {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { pool.Close() })
	return pool
}

// sumProblem asks for the sum of two numbers, read from standard input.
func sumProblem() *data.Problem {
	p := data.Problem{ID: "sum", Kind: data.Stdin}.WithTests(
		data.Test{Stdin: "1 2\n", Stdout: "3\n"}, data.Test{Stdin: "20 22\n", Stdout: "42\n"})
	return &p
}

// callProblem asks for it as a function.
func callProblem() *data.Problem {
	raw := func(values ...string) (list []json.RawMessage) {
		for _, v := range values {
			list = append(list, json.RawMessage(v))
		}
		return list
	}
	p := data.Problem{ID: "call", Kind: data.Call, FuncName: "add"}.WithTests(
		data.Test{Args: raw("1", "2"), Returns: json.RawMessage("3")}, data.Test{Args: raw("20", "22"), Returns: json.RawMessage("42")})
	return &p
}

// matrix is every so many-th program of programs_test.go with its verdict, without those whose names match skip.
func matrix(skip string, every int) (completions []Completion, want []Verdict, names []string) {
	sum, call := sumProblem(), callProblem()
	verdicts := map[string]Verdict{}
	programs := map[string]Completion{}
	add := func(name string, p *data.Problem, code string, want Verdict) {
		if want == TLE { // a short limit keeps the test short
			short := *p
			short.TimeMS, p = 300, &short
		}
		programs[name], verdicts[name] = Completion{Problem: p, Text: fenced(code)}, want
	}
	for name, code := range correctPrograms {
		add("honest "+name, sum, code, AC)
	}
	for name, code := range honestCalls {
		add("honest call "+name, call, code, AC)
	}
	for name, h := range hacks {
		add("hack "+name, sum, h.code, h.want)
	}
	for name, h := range callHacks {
		add("call hack "+name, call, h.code, h.want)
	}
	for name, a := range returned {
		programs["returned "+name], verdicts["returned "+name] = a.completion(), a.want
	}
	for i, name := range slices.Sorted(maps.Keys(programs)) {
		if skipped, _ := regexp.MatchString(skip, name); (skip == "" || !skipped) && i%every == 0 {
			completions, want, names = append(completions, programs[name]), append(want, verdicts[name]), append(names, name)
		}
	}
	return completions, want, names
}

func checkMatrix(t *testing.T, j *Judge, skip string, every int) {
	t.Helper()
	completions, want, names := matrix(skip, every)
	scores, err := All(t.Context(), j, completions)
	require.NoError(t, err)
	for i, s := range scores {
		if s.Verdict != want[i] {
			t.Errorf("%s: %s %v, expected %s (%s)", names[i], s.Verdict, s.Tests, want[i], s.Note)
		}
		if pays := map[bool]float64{true: 1}[want[i] == AC]; s.Reward != pays {
			t.Errorf("%s: reward %g, expected %g", names[i], s.Reward, pays)
		}
	}
}

func TestMatrix(t *testing.T) {
	t.Parallel()
	checkMatrix(t, NewJudge(correct(t), localPool(t), nil, nil), "", 1)
}

// A server without isolation lets a program explore the machine. It finds no right answer there, and all
// verdicts are the same as in a cell. What package fusion tests itself is left out, and in the short form two programs of three.
func TestMatrixOnAServer(t *testing.T) {
	t.Parallel()
	server := fusiontest.NewServer(t)
	rules := correct(t)
	rules.MaxTests = 1 // every test starts an interpreter
	client, err := fusion.New(fusion.Options{URL: server.URL, Concurrency: 2})
	require.NoError(t, err)
	checkMatrix(t, NewJudge(rules, client, nil, nil),
		"^call hack|^returned|other processes|descriptors|test files|one for the other", testvariants.Limit(3, 1))
}

// Nothing that one run leaves behind reaches the next.
func TestRunsAreStrangers(t *testing.T) {
	t.Parallel()
	j := NewJudge(correct(t), localPool(t), nil, nil)
	code := `
import builtins, os, random, sys
marks = [hasattr(builtins, 'mark'), os.path.exists('/tmp/mark'), 'mark' in sys.modules, 'MARK' in os.environ]
builtins.mark = 1; sys.modules['mark'] = sys; os.environ['MARK'] = '1'
try: open('/tmp/mark', 'w').write('x')
except OSError: pass
print(sum(map(int, input().split())) if not any(marks) else marks)`
	for i := range 5 {
		s := grade(t, j, Completion{Problem: sumProblem(), Text: fenced(fmt.Sprintf("# %d%s", i, code))})
		require.Equal(t, []Verdict{AC, AC}, s.Tests)
	}
}

func TestCheckerInACell(t *testing.T) {
	t.Parallel()
	pool := localPool(t)
	checker := `
def check(input, output, expected):
    a, b = map(int, output.split())
    return a + b == int(input) and a > 0 and b > 0`
	p := data.Problem{ID: "split", Kind: data.Stdin, Checker: checker}.WithTests(data.Test{Stdin: "10\n", Stdout: "1 9\n"})
	j := NewJudge(correct(t), pool, pool, nil)
	for code, want := range map[string]Verdict{
		"print(3, int(input()) - 3)": AC, "print(0, int(input()))": WA, "print('no numbers')": WA, "print(1 / 0)": RTE,
	} {
		require.Equal(t, want, grade(t, j, Completion{Problem: &p, Text: fenced(code)}).Verdict, code)
	}
	require.EqualValues(t, 1, j.Stats().CheckerErrors, "the answer without numbers is a checker error")
}
