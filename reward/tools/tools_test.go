package tools

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

func resultWith(record []byte) sandbox.Result {
	return sandbox.Result{Status: sandbox.OK, Record: record}
}

// TestPython: the interpreter behaves like that of a notebook.
func TestPython(t *testing.T) {
	t.Parallel()
	k := openKit(t, data.Problem{}, Options{CallTime: 200 * time.Millisecond, Text: 1200})
	for _, c := range []struct{ code, want string }{
		{"x = 20", "(no output)"},
		{"print('a')\nx + 1", "a\n21"},
		{"def f(n):\n    return g(n)\ndef g(n):\n    return 1 // n\n", "(no output)"},
		{"import sys\nprint('out'); print('err', file=sys.stderr)\nf(0)", "out\nerr\nTraceback (most recent call last):\n" +
			"  File \"call-4\", line 3, in <module>\n"},
		{"f(1)", "1"},
		{"1 +", "SyntaxError"},
		{"class A: pass\nA(), {3, 1, 2}, 'text', None", "(<__main__.A object at 0x…>, {1, 2, 3}, 'text', None)"},
		{"import random, pickle\npickle.loads(pickle.dumps(A())) is not None and random.random()", "0.8444218515250481"},
		{"input()", "EOFError"},
		{"sys.exit(3)", "SystemExit: 3"},
		{"import json\njson.loads('{')", "json.decoder.JSONDecodeError: Expecting property name"},
		{"print('é😀\\ud800')", "é😀\\ud800"},
		{"print('y' * 3000)", "bytes left out"},
		{"'z' * 3000", "bytes left out"},
		{"def r(n): return r(n + 1)\nsys.setrecursionlimit(200)\nr(0)", "[Previous line repeated 7 more times]"},
		{"class B:\n    def __repr__(self): raise ValueError('no')\nB()", "ValueError: no"},
		{"import signal\nsignal.alarm(1)\nx", "20"},
		{"open('/tmp/left', 'w').write('1')\nimport os\nos.listdir('/tmp')", "['left']"},
		{"try:\n    print('y' * 5000000)\nexcept OSError as e: error = e\n", "bytes left out"},
		{"str(error)", "'[Errno 27] File too large'"},
		{"import builtins\nbuiltins.len = None\nbuiltins.repr = 3\nprint(len)", "None"},
		{"x", "20"},
		{"os._exit(3)", "[the interpreter ended with exit code 3; all variables are lost, and the next call begins anew]"},
		{"x", "NameError"},
		{"import os; os.listdir('/tmp')", "[]"},
		{"x = 1\nwhile True: pass", "[stopped: a call may use 200ms of processor time"},
		{"'x' in globals(), len('abc')", "(False, 3)"},
	} {
		require.Contains(t, run(t, k, c.code), c.want, c.code)
	}
	text := run(t, k, "import os\nos.listdir('/etc')")
	require.NotContains(t, text, "passwd")
	s := k.Stats()
	require.Equal(t, 28, s.Calls["python"])
	require.Equal(t, 2, s.Lost)
	require.Zero(t, s.Wrong+s.Failed)
	require.Positive(t, s.CPU)
}

// TestSameCallsSameText: two conversations that make the same calls get the same answers.
func TestSameCallsSameText(t *testing.T) {
	t.Parallel()
	j := sharedJudge(t)
	calls := []string{"import random\nrandom.random(), list({'a', 'b', 'c'})", "print(object(), lambda: 1)\nhash('x')"}
	var texts [2]string
	var wait sync.WaitGroup
	for i := range texts {
		k := openKit(t, data.Problem{}, Options{Judge: j})
		wait.Go(func() {
			for _, code := range calls {
				texts[i] += run(t, k, code)
			}
			texts[i] += ask(t, k, "trace", map[string]any{"code": "x = hash('x'), {'a', 'b'}\ny = object(), print(lambda: 1)"})
		})
	}
	wait.Wait()
	require.Equal(t, texts[0], texts[1])
}

// TestTotalTime: the processor time of a conversation is bounded.
func TestTotalTime(t *testing.T) {
	t.Parallel()
	k := openKit(t, data.Problem{}, Options{CallTime: 200 * time.Millisecond, TotalTime: 60 * time.Millisecond})
	require.Contains(t, run(t, k, "while True: pass"), "[python has used its 60ms of processor time, and cannot be called any more]")
	require.Contains(t, run(t, k, "1"), "cannot be called any more")
}

// TestWrongCalls: wrong calls are answered with an explanation.
func TestWrongCalls(t *testing.T) {
	t.Parallel()
	j := sharedJudge(t)
	p := data.Problem{ID: "p", Kind: data.Call, FuncName: "add"}.WithTests(data.Test{
		Args: []json.RawMessage{json.RawMessage("1"), json.RawMessage("2")}, Returns: json.RawMessage("3")})
	k := openKit(t, p, Options{Judge: j, PublicTests: 1})
	for _, c := range []struct{ tool, args, want string }{
		{"python", ``, "there are none"},
		{"python", `{`, `expected {"code": "…"}`},
		{"python", `[]`, "cannot unmarshal array"},
		{"python", `{"cod":"1"}`, `unknown field "cod"`},
		{"python", `{"code":1}`, "cannot unmarshal number"},
		{"python", `{"code":"1"} x`, "text after the object"},
		{"python", `{"code":" \n"}`, "there is no code"},
		{"python", `{"code":"` + strings.Repeat("#", 70_000) + `"}`, "at most 65520"},
		{"pythn", `{}`, "there is no tool \"pythn\"; the tools are python, run_tests, trace"},
		{"trace", `{"code":"1","input":"3"}`, `expected "args": […]`},
		{"trace", `{"code":"1","test":2}`, "there is no public test 2; there are 1 of them"},
		{"trace", `{"code":"1","test":1,"args":[]}`, "expected one of the two"},
		{"run_tests", `{"code":"1","tests":[]}`, `unknown field "tests"`},
	} {
		text, err := k.Call(t.Context(), c.tool, json.RawMessage(c.args))
		require.NoError(t, err)
		require.Contains(t, text, c.want, c.args)
	}
	require.Equal(t, 13, k.Stats().Wrong)
	for _, tool := range k.Tools() {
		var schema struct {
			Type     string
			Function struct {
				Name       string
				Parameters struct{ Required []string }
			}
		}
		require.NoError(t, json.Unmarshal(tool.Schema(), &schema))
		require.Equal(t, tool.Name(), schema.Function.Name)
		require.Equal(t, []string{"code"}, schema.Function.Parameters.Required)
	}
	for _, o := range []Options{{}, {Judge: j, Text: 3}, {Judge: j, Tools: []string{"perl"}}, {Judge: j, Tools: []string{"trace", "trace"}},
		{Judge: j, Form: "poem"}, {Judge: j, Lines: -1}, {Judge: reward.NewJudge(reward.Rules{}, nil, nil, nil)}} {
		_, err := Open(t.Context(), &p, o)
		require.True(t, badinput.Is(err), "%v", err)
	}
	_, err := Open(t.Context(), &p, Options{})
	require.ErrorContains(t, err, "Options have no Judge")
	require.PanicsWithValue(t, "tools.Open: the argument problem is nil, expected a problem, such as package dataset reads",
		func() { _, _ = Open(t.Context(), nil, Options{Judge: j}) })
}

// TestTraces: what a trace shows of loops, calls, generators, exceptions, in every form, and that more room shows more.
func TestTraces(t *testing.T) {
	t.Parallel()
	k := openKit(t, data.Problem{Kind: data.Stdin}, Options{Judge: sharedJudge(t)})
	code := strings.Join([]string{
		"def half(n):",                  // 1
		"    if n == 8:",                // 2
		"        raise KeyError(n)",     // 3
		"    return n // 2",             // 4
		"seen = {}",                     // 5
		"for i in range(int(input())):", // 6
		"    try:",                      // 7
		"        seen[i] = half(i)",     // 8
		"    except KeyError:",          // 9
		"        pass",                  // 10
		"print('end')",                  // 11
	}, "\n")
	asks := func(k *Kit) string {
		return string(k.Tools()[slices.IndexFunc(k.Tools(), func(t Tool) bool { return t.Name() == "trace" })].Schema())
	}
	require.Contains(t, asks(k), `"input":{"type":"string"`)
	require.NotContains(t, asks(k), `"args"`)
	called := openKit(t, data.Problem{Kind: data.Call, FuncName: "half"}, Options{Judge: sharedJudge(t)})
	require.Contains(t, asks(called), `the arguments that half is called with`)
	require.NotContains(t, asks(called), `"input"`)
	text := ask(t, k, "trace", map[string]any{"code": code, "input": "9"})
	for _, want := range []string{
		"   6 | for i in range(int(input())):        # i = 0\n",
		"   8 |         seen[i] = half(i)\n     |   # call half(n=0)\n   2 |       if n == 8:\n   4 |       return n // 2\n     |   # return 0\n",
		"   8 |         seen[i] = half(i)            # seen[2] = 1\n",
		"     | # … × 5 more rounds of the loop in line 6\n",
		"   3 |           raise KeyError(n)\n     |   # raises KeyError: 8\n     |   # left by the exception\n",
		"The program ended.\nIt printed:\nend",
	} {
		require.Contains(t, text, want)
	}
	trace, _, err := Follow(t.Context(), k.options.Judge.Pool(), "g", Traced{Code: code, Stdin: "9", Lines: 1000}, sandbox.Limits{})
	require.NoError(t, err)
	require.Contains(t, trace.Text(StoryForm, 9000), "Line 6 runs `for i in range(int(input())):`. Now i = 1 (was 0).\n")
	require.Contains(t, trace.Text(TableForm, 9000), "| 8 | seen[i] = half(i) | seen[1] = 0 |\n")
	short := trace.Text(LinesForm, 500)
	require.LessOrEqual(t, len(short), 500)
	require.Contains(t, short, "The program ended.\nIt printed:\nend")
	var whole struct {
		Steps []Step
		Lines int
	}
	raw, err := json.Marshal(trace)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &whole))
	require.Equal(t, trace.Steps(), whole.Steps)
	require.Equal(t, Step{Kind: Call, Depth: 1, Line: 1, Name: "half", Changes: []Change{{Name: "n", New: "0"}}}, whole.Steps[5])

	same := Traced{Code: "while True:\n    x = [1]\n", Lines: 500}
	endless, _, err := Follow(t.Context(), k.options.Judge.Pool(), "g", same, sandbox.Limits{})
	require.NoError(t, err)
	require.Contains(t, endless.Text(LinesForm, 900), " more rounds of the loop in line 1")
	require.Contains(t, endless.Ended, "stopped after 500 lines")
}

// TestTraceOfAnAssertion: the trace of an assertion begins with the program under test.
func TestTraceOfAnAssertion(t *testing.T) {
	t.Parallel()
	k := openKit(t, data.Problem{ID: "p", Kind: data.Assert}.WithTests(data.Test{Given: "n = 2", Setup: "x = n",
		Assert: "assert f(x) == 4", Public: true}), Options{})
	text := ask(t, k, "trace", map[string]any{"code": "def f(x):\n    return x + 1\n", "test": 1})
	require.Contains(t, text, "# call f(x=2)")
	require.Contains(t, text, "AssertionError")
}

// TestRoundsOfAHeadThatRunsOnce: in a loop without a condition Python 3.12 jumps back to the first line of the body.
func TestRoundsOfAHeadThatRunsOnce(t *testing.T) {
	record := "[\"o\",[[1,2]]]\n[\"l\",0,1]\n" + strings.Repeat("[\"l\",0,2]\n", 100) + "[\"l\",0,3]\n"
	text := readTrace("while True:\n    f()\ng()", resultWith([]byte(record))).Text(LinesForm, 2000)
	require.Contains(t, text, "# … × 95 more rounds of the loop in line 1\n")
	require.Contains(t, text, "   3 | g()\n")
}
