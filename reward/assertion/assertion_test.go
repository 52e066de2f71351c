package assertion

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/plainpython"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// cells are opened once for all tests.
var cells [2]*sandbox.Pool

func TestMain(m *testing.M) {
	plainpython.SetPath()
	code := m.Run()
	for _, pool := range cells {
		if pool != nil {
			pool.Close()
		}
	}
	os.Exit(code)
}

func newRunner(t *testing.T) *Runner {
	t.Helper()
	for i := range cells {
		if cells[i] != nil {
			continue
		}
		programs, trusted := Cells(sandbox.Options{Slots: 1, Sessions: 1})
		pool, err := sandbox.Open(context.Background(), []sandbox.Options{programs, trusted}[i])
		if badinput.Is(err) {
			t.Skip(err)
		}
		require.NoError(t, err)
		cells[i] = pool
	}
	of := func(i int) Opener { return func(context.Context) (*sandbox.Pool, error) { return cells[i], nil } }
	return New(of(0), of(1))
}

// runTest runs a test on a program.
func runTest(t *testing.T, r *Runner, code string, test data.Test, function string, l sandbox.Limits) sandbox.Result {
	t.Helper()
	for again := 0; ; again++ {
		var result sandbox.Result
		err := r.Run(t.Context(), t.Name(), sandbox.Program{Code: code}, []sandbox.Input{Input(&data.Problem{FuncName: function}, &test)}, l,
			func(_ int, got sandbox.Result) bool { result = got; return true })
		var broken *sandbox.InfraError
		if errors.As(err, &broken) && strings.Contains(err.Error(), "too busy") && again < 5 {
			continue // it says nothing about the program
		}
		require.NoError(t, err, code)
		return result
	}
}

func passes(r sandbox.Result) bool { return r.Status == sandbox.OK && string(r.Value) == "true" }

// squares is a test in the style of HumanEval, whose helper names a program could look for.
var squares = data.Test{Setup: "def square(x):\n    \"\"\"Gives x times x.\"\"\"\n", Assert: `
SECRET = [(2, 4), (-3, 9), (0, 0), (10**30, 10**60)]

def check(candidate):
    expected = {a: b for a, b in SECRET}
    for argument in expected:
        assert candidate(argument) == expected[argument], "the wrong square"
    assert [candidate(i) for i in range(4)] == [0, 1, 4, 9]

check(square)
`}

func TestRightPrograms(t *testing.T) {
	r := newRunner(t)
	for name, code := range map[string]string{
		"function":           "def square(x): return x * x",
		"lambda":             "square = lambda x: x ** 2",
		"method":             "class Solution:\n    def square(self, x: int) -> int:\n        return x * x",
		"prints":             "print('hello')\ndef square(x):\n    print(x)\n    return x * x",
		"a test of its own":  "def square(x): return x * x\nif __name__ == '__main__':\n    raise ValueError",
		"from __future__":    "from __future__ import annotations\ndef square(x: Whatever) -> int: return x * x",
		"subclass":           "class I(int): pass\ndef square(x): return I(x * x)",
		"state":              "seen = {}\ndef square(x):\n    seen[x] = seen.get(x, 0) + 1\n    return x * x",
		"names of a preface": "def square(x) -> Optional[List[int]]: return reduce(lambda a, b: a * b, [x, x])",
		"a thread":           "import threading\nthreading.Thread(target=print).start()\ndef square(x): return x * x",
		"odd text":           "def square(x):\n    s = '\\u2028 𝔸 <&> \"\"'\n    return x * x # é",
	} {
		got := runTest(t, r, code, squares, "square", sandbox.Limits{})
		if !passes(got) {
			t.Errorf("%s: %v %s %s", name, got.Status, got.Value, got.Stderr)
		}
	}
}

// attacks are programs that do not compute squares. Each would pass if its assertions ran in the program's own process, or if that
// process's exit code were the result.
func attacks(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("testdata/attacks.txt")
	require.NoError(t, err)
	programs := map[string]string{}
	for part := range strings.SplitSeq("\n"+string(text), "\n=== ") {
		if name, code, ok := strings.Cut(part, "\n"); ok {
			programs[name] = code
		}
	}
	return programs
}

func TestAttacks(t *testing.T) {
	r := newRunner(t)
	all := attacks(t)
	require.Greater(t, len(all), 40)
	for name, code := range all {
		got := runTest(t, r, code, squares, "square", sandbox.Limits{CPU: 2000e6, Wall: 2000e6})
		if passes(got) {
			t.Errorf("%s passes", name)
		}
		if strings.HasPrefix(got.Stderr, Faulty) {
			t.Errorf("%s is called a fault of the test: %s", name, got.Stderr)
		}
	}
	require.True(t, passes(runTest(t, r, "def square(x): return x * x", squares, "square", sandbox.Limits{})), "the cells still work")
}

// A program must not end an iteration of a test that only checks that the iteration ends.
func TestAProgramEndsNoIterationOfATest(t *testing.T) {
	r := newRunner(t)
	test := data.Test{Assert: "assert all(map(f, [1, 2, 3]))\nassert [x for x in map(f, [])] == list(map(f, []))"}
	for _, raised := range []string{"StopIteration", "StopIteration(3)", "StopAsyncIteration", "GeneratorExit",
		"type('S', (StopIteration,), {})"} {
		got := runTest(t, r, "def f(x): raise "+raised, test, "f", sandbox.Limits{})
		require.Equal(t, sandbox.RTE, got.Status, raised)
	}
	require.True(t, passes(runTest(t, r, "def f(x): return x", test, "f", sandbox.Limits{})))
}

func TestVerdicts(t *testing.T) {
	r := newRunner(t)
	short := sandbox.Limits{CPU: 250e6, Wall: 2000e6, Memory: 128 << 20}
	for code, want := range map[string]sandbox.Status{
		"def square(x):\n    while True: pass":                       sandbox.TLE,
		"while True: pass":                                           sandbox.TLE,
		"import time\ndef square(x): time.sleep(1000)":               sandbox.TLE,
		"def square(x): return [0] * 10**9":                          sandbox.MLE,
		"def square(x) return":                                       sandbox.CE,
		"x = \x00":                                                   sandbox.CE,
		"def square(x): return 1 / 0":                                sandbox.RTE,
		"raise ValueError('no')":                                     sandbox.RTE,
		"def square(x): return 5":                                    sandbox.OK,
		"import os, signal\ndef square(x): os.kill(os.getpid(), 11)": sandbox.RTE,
	} {
		limits := short
		if strings.Contains(code, "sleep") {
			limits.Wall = 300e6
		}
		got := runTest(t, r, code, squares, "square", limits)
		require.Equal(t, want.String(), got.Status.String(), "%s: %s", code, got.Stderr)
		require.False(t, passes(got))
	}
	got := runTest(t, r, "def square(x): return 5", squares, "square", short)
	require.Equal(t, `assert candidate(argument) == expected[argument], "the wrong square": AssertionError: the wrong square`, got.Stderr)
	require.Positive(t, got.CPU)
	got = runTest(t, r, "def square(x): return object()", squares, "square", short)
	require.Contains(t, got.Stderr, "an object of type object, which is not plain data")
	got = runTest(t, r, "def square(x): raise ValueError('for a reason')", squares, "square", short)
	require.Contains(t, got.Stderr, "for a reason")
}

// Values keep their types both ways; a test may expect exceptions; objects of the program stay in its process.
func TestWhatCrosses(t *testing.T) {
	r := newRunner(t)
	for _, c := range []struct{ source, code string }{
		{`for v in (None, True, 1, -2**200, 0.1, float("inf"), 1e-320, "é\ud800\x00", b"\xff", [1, (2, {3: {4}})], frozenset([1]), 1j,
        range(1, 9, 2), {"a": [1], (1, 2): None}, bytearray(b"x"), [], (), set(), {}, int, str, type(None), "x" * 300_000,
        list(range(50_000))):
    w = f(v)
    assert w == v and type(w) is type(v), v
import math
assert math.isnan(f(float("nan"))) and math.copysign(1, f(-0.0)) == -1`, "def f(x): return x"},
		{`assert f(1, *[2], b=3, **{"c": 4}) == (1, (2,), 3, {"c": 4})`, "def f(a, *more, b, **named): return a, more, b, named"},
		{`assert f([1]) == {1: 2} and type(f([1])) is dict`, "from collections import Counter\ndef f(x): return Counter([1, 1])"},
		{`assert f(1) == (1, 2)`, "from collections import namedtuple\nP = namedtuple('P', 'x y')\ndef f(x): return P(1, 2)"},
		{"l = [3, 1]\nf(l)\nassert l == [3, 1]", "def f(x): x.sort()"},
		{`assert list(f(3)) == [0, 1, 2] and sorted(f(2)) == [0, 1]`, "def f(n):\n    for i in range(n): yield i"},
		{"try:\n    f(-1)\n    assert False\nexcept ValueError as e:\n    assert str(e) == 'negative'", "def f(x): raise ValueError('negative')"},
		{"try:\n    f(-1)\n    assert False\nexcept ValueError as e:\n    pass", "class E(ValueError): pass\ndef f(x): raise E('x')"},
		{"try:\n    f({})\n    assert False\nexcept KeyError:\n    pass", "def f(x): return x['a']"},
		{"try:\n    f(-1)\nexcept ValueError as e:\n    assert str(e) == 'negative'", "class E(ValueError): pass\ndef f(x): raise E('negative')"},
		{"try:\n    f(-1)\nexcept Exception as e:\n    assert str(e) == 'negative'", "def f(x): raise Exception('negative')"},
		{"try:\n    f(-1)\nexcept Exception as e:\n    assert 'E' not in str(e)", "class E(Exception): pass\ndef f(x): raise E('negative')"},
		{"try:\n    f(-1)\nexcept PermissionError as e:\n    assert str(e) == 'no'", "def f(x): raise PermissionError('no')"},
		{"try:\n    f({})\nexcept KeyError as e:\n    assert e.args == ('a',)", "def f(x): return x['a']"},
		{"a = f('x')\nassert (a._name, a._place, a.refuse(1)) == ('x', 2, 3)\na._name = 4\nassert a._name == 4",
			"class A:\n    _place = 2\n    def __init__(self, n): self._name = n\n    def refuse(self, n): return n + 2\ndef f(n): return A(n)"},
		{`assert f(2)(3) == 5`, "def f(x): return lambda y: x + y"},
		{`from collections import deque
from decimal import Decimal
from fractions import Fraction
for v in (deque([1, "a", (2,)]), deque(), Decimal("0.10"), Decimal("-Infinity"), Fraction(-6, 4), [Fraction(2), {Decimal(1): deque()}]):
    w = f(v)
    assert w == v and type(w) is type(v) and repr(w) == repr(v), v`, "def f(x): return x"},
		{`d = f("ab")
assert len(d) == 2 and d["a"] == 97 and "b" in d and list(d) == ["a", "b"] and d
try:
    d["c"]
    assert False
except KeyError:
    pass`, "from types import MappingProxyType\ndef f(x): return MappingProxyType({c: ord(c) for c in x})"},
		{`assert f("x1") and not f("x") and list(f("x1").groups()) == ["1"]`, "import re\ndef f(x): return re.match('.([0-9])', x)"},
		{`assert not f([]) and f([1]) and list(f([1])) == [1]`, "def f(x): return {i: 0 for i in x}.keys()"},
	} {
		got := runTest(t, r, c.code, data.Test{Assert: c.source}, "f", sandbox.Limits{})
		if !passes(got) {
			t.Errorf("%s\n%s: %v %s", c.source, c.code, got.Status, got.Stderr)
		}
	}
	tree := data.Test{Setup: "root = Node(1)\nroot.left = Node(2)\nroot.left.left = Node(3)", Calls: []string{"Node", "depth"},
		Assert: "assert depth(root) == 3 and depth(root.left) == 2 and root.left.value == 2 and depth(Node(7)) == 1"}
	code := "class Node:\n    def __init__(self, value):\n        self.value, self.left, self.right = value, None, None\n"
	depth := "def depth(n): return 1 + max(depth(n.left), depth(n.right)) if n else 0"
	require.True(t, passes(runTest(t, r, code+depth, tree, "", sandbox.Limits{})))
	require.False(t, passes(runTest(t, r, code+"def depth(n): return n", tree, "", sandbox.Limits{})))
	tree.Assert = "assert depth(root) == root and depth(root) != root.left and depth(root.left) in {root.left: 1}"
	require.True(t, passes(runTest(t, r, code+"def depth(n): return n", tree, "", sandbox.Limits{})))
	given := data.Test{Given: "import math\ndef helper(x): return x + 1", Assert: "assert f(1) == 2"}
	require.True(t, passes(runTest(t, r, "def f(x): return math.floor(helper(x))", given, "f", sandbox.Limits{})))
	require.True(t, passes(runTest(t, r, "from __future__ import annotations\ndef helper(x): return 2\ndef f(x): return helper(x)", given, "f",
		sandbox.Limits{})))
}

// Unicode errors, whose constructors take more than a text, can be expected like others; an integer may have 70,000 digits.
func TestWhatElseCrosses(t *testing.T) {
	r := newRunner(t)
	wants := "try:\n    f(%s)\n    assert False\nexcept %s as e:\n    assert 'in position 0' in str(e)"
	for source, code := range map[string]string{
		fmt.Sprintf(wants, `b"\xff"`, "UnicodeDecodeError"): "def f(x): return x.decode()",
		fmt.Sprintf(wants, `"\xe9"`, "ValueError"):          "def f(x): return x.encode('ascii')",
		"assert f(10**69000) == 10**69000":                  "def f(x): return x",
	} {
		got := runTest(t, r, code, data.Test{Assert: source}, "f", sandbox.Limits{})
		require.True(t, passes(got), "%s: %v %s", source, got.Status, got.Stderr)
	}
}

// An object that a test makes by calling a class of the program keeps its methods, whatever the class derives from.
func TestContainersOfAClassOfTheirOwn(t *testing.T) {
	r := newRunner(t)
	stack := data.Test{Calls: []string{"Stack"}, Assert: "s = Stack()\ns.push(3)\nassert len(s) == 1 and s.pop() == 3 and not s"}
	require.True(t, passes(runTest(t, r, "class Stack(list): push = list.append", stack, "", sandbox.Limits{})))
	cache := data.Test{Calls: []string{"Cache"}, Assert: "c = Cache(2)\nc.put(1, 5)\nassert c.get(1) == 5 and c.get(2) == -1"}
	require.True(t, passes(runTest(t, r, "class Cache(OrderedDict):\n    def __init__(self, size): super().__init__()\n"+
		"    def put(self, k, v): self[k] = v\n    def get(self, k): return self[k] if k in self else -1", cache, "", sandbox.Limits{})))
}

// A name of a test refers to the program only if the test declares that, even if the program defines the same name.
func TestNamesOfATestAreItsOwn(t *testing.T) {
	r := newRunner(t)
	code := "class math:\n    isclose = staticmethod(lambda *a, **k: True)\ndef helper(x): return x\ndef f(x): return 5\nabs = lambda x: 0\n"
	for _, source := range []string{"import math\nassert math.isclose(f(1), 1)", "assert abs(f(1) - 1) < 1e-6", "assert helper(f(1)) == 1"} {
		got := runTest(t, r, code, data.Test{Assert: source, Setup: "def helper(x): return x"}, "f", sandbox.Limits{})
		require.Equal(t, sandbox.OK, got.Status)
		require.Equal(t, "false", string(got.Value), source)
	}
	got := runTest(t, r, code, data.Test{Assert: "assert math.isclose(f(1), 1)"}, "f", sandbox.Limits{})
	require.False(t, passes(got), "a test sees only names that it has imported")
}

// A faulty test is reported as such.
func TestFaultyTests(t *testing.T) {
	r := newRunner(t)
	for source, says := range map[string]string{
		"assert f(1) ==":               "invalid syntax",
		"import nosuchmodule":          "No module named",
		"assert f(lambda: 1) == 1":     "type function cannot be passed to the program",
		"assert f(open('/dev/null'))":  "cannot be passed",
		"raise SystemExit(0)":          "SystemExit",
		"assert g(1) == 1":             "name 'g' is not defined",
		"f(1)\nraise SystemExit(0)":    "SystemExit",
		"f(1)\nimport os\nos._exit(0)": "could not be worked out",
	} {
		got := runTest(t, r, "def f(x): return 1", data.Test{Assert: source}, "f", sandbox.Limits{})
		require.False(t, passes(got), source)
		require.Contains(t, got.Stderr, says, source)
		if !strings.Contains(says, "worked out") {
			require.True(t, strings.HasPrefix(got.Stderr, Faulty), got.Stderr)
		}
	}
	got := runTest(t, r, "def f(x) return", data.Test{Assert: "pass"}, "f", sandbox.Limits{})
	require.Equal(t, sandbox.CE, got.Status, "a test that calls nothing has the program loaded all the same")
}

func TestRunsThatAreGivenUp(t *testing.T) {
	r := newRunner(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	in := []sandbox.Input{Input(&data.Problem{FuncName: "square"}, &squares)}
	err := r.Run(ctx, "", sandbox.Program{Code: "x = 1"}, in, sandbox.Limits{}, func(int, sandbox.Result) bool { return true })
	require.ErrorIs(t, err, context.Canceled)
	broken := errors.New("no cells")
	r = New(func(context.Context) (*sandbox.Pool, error) { return nil, broken }, r.trusted)
	require.ErrorIs(t, r.Run(t.Context(), "", sandbox.Program{}, in, sandbox.Limits{}, nil), broken)
}

// If the assertions exceed a limit, so does the program; if they fail by themselves, the program is wrong.
func TestAssertionsThatAreNotWorkedOut(t *testing.T) {
	for is, want := range map[sandbox.Status]sandbox.Status{sandbox.TLE: sandbox.TLE, sandbox.MLE: sandbox.MLE, sandbox.RTE: sandbox.OK,
		sandbox.OK: sandbox.OK} {
		r := new(dialogue).undecided(sandbox.Reply{Status: is})
		require.Equal(t, want, r.Status)
		require.False(t, passes(r))
		require.Contains(t, r.Stderr, "could not be worked out")
	}
	for wall, want := range map[time.Duration]time.Duration{0: 3 * time.Second, 9 * time.Second: 9 * time.Second} {
		limits := sandbox.Limits{CPU: 2 * time.Second, Wall: wall}
		require.Equal(t, want, newDialogue("", "", Test{}, new(sandbox.Pool), new(sandbox.Pool), limits).limits.Wall)
	}
	r, err := (&dialogue{size: mostProgram + 1}).run(t.Context())
	require.NoError(t, err)
	require.Equal(t, sandbox.CE, r.Status)
	require.Equal(t, "the program has 4194305 bytes; at most 4194304 are compiled", r.Stderr)
}

// A program whose cells are closed has no verdict.
func TestCellsThatAreClosed(t *testing.T) {
	r := newRunner(t)
	options, _ := Cells(sandbox.Options{Slots: 1, Sessions: 1})
	closed, err := sandbox.Open(t.Context(), options)
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	r = New(func(context.Context) (*sandbox.Pool, error) { return closed, nil }, r.trusted)
	for _, test := range []data.Test{{Assert: "assert f() == 1"}, {Assert: "assert True"}} {
		in := Input(&data.Problem{FuncName: "f"}, &test)
		err := r.Run(t.Context(), "g", sandbox.Program{Code: "def f(): return 1"}, []sandbox.Input{in}, sandbox.Limits{},
			func(int, sandbox.Result) bool { t.Error("an unexpected verdict"); return true })
		require.ErrorIs(t, err, sandbox.ErrClosed)
	}
}
