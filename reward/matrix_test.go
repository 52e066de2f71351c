package reward

import (
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/reward/fusion"
	"github.com/seed-7879b91d/grpo/reward/fusion/fusiontest"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// localPool opens cells, or skips the test where there is no Python or no isolation to be had.
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

// sumProblem wants the sum of two numbers, read from standard input.
func sumProblem() *data.Problem {
	p := data.Problem{ID: "sum", Kind: data.Stdin}.WithTests(
		data.Test{Stdin: "1 2\n", Stdout: "3\n"}, data.Test{Stdin: "20 22\n", Stdout: "42\n"})
	return &p
}

// callProblem wants it from a call.
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

// honest programs were rejected by graders that others train on.
var honest = map[string]string{
	"plain":         "a, b = map(int, input().split())\nprint(a + b)",
	"stdout.buffer": "import sys\na, b = map(int, input().split())\nsys.stdout.buffer.write(b'%d\\n' % (a + b))",
	"stdin.buffer":  "import sys\na, b = map(int, sys.stdin.buffer.read().split())\nprint(a + b)",
	"stdin.buffer lines": "import sys\ninput = sys.stdin.buffer.readline\na, b = map(int, input().split())\nassert input() == b''\n" +
		"print(a + b)",
	"open(0)": "a, b = map(int, open(0).read().split())\nprint(a + b)",
	"os.read": "import os\na, b = map(int, os.read(0, 1000).split())\nos.write(1, str(a + b).encode())",
	"global":  "n = 0\ndef main():\n    global n\n    n = sum(map(int, input().split()))\nmain()\nprint(n)",
	"main guard not last": "def main():\n    global n\n    n = sum(map(int, input().split()))\nif __name__ == '__main__':\n    main()\n" +
		"print(n)",
	"exit()":               "print(sum(map(int, input().split())))\nexit()\nprint('never')",
	"quit() in a function": "def main():\n    print(sum(map(int, input().split())))\n    quit()\nmain()",
	"sys.exit":             "import sys\nprint(sum(map(int, input().split())))\nsys.exit(0)",
	"stdout.close()":       "import sys\nprint(sum(map(int, input().split())))\nsys.stdout.close()",
	"os._exit after flush": "import os\nprint(sum(map(int, input().split())), flush=True)\nos._exit(0)",
	"a thread": "import threading\ndef main():\n    print(sum(map(int, input().split())))\n" +
		"threading.Thread(target=main).start()",
	"a thread with a stack": "import sys, threading\nsys.setrecursionlimit(1 << 20)\nthreading.stack_size(1 << 28)\n" +
		"def f(n): return 0 if n == 0 else 1 + f(n - 1)\ndef main():\n    assert f(50000) == 50000\n" +
		"    print(sum(map(int, input().split())))\n" +
		"t = threading.Thread(target=main)\nt.start()\nt.join()",
	"deep recursion": "def f(n): return 0 if n == 0 else 1 + f(n - 1)\nassert f(40000) == 40000\n" +
		"print(sum(map(int, input().split())))",
	"no imports": "print(reduce(lambda a, b: a + b, map(int, input().split())))\n" +
		"assert gcd(4, 6) == 2 and deque([1]) and defaultdict(int)[1] == 0",
	"multi-line string": "s = '''\nx\n  y\n'''\nassert s == chr(10) + 'x' + chr(10) + '  y' + chr(10)\n" +
		"print(sum(map(int, input().split())))",
	"decimals":         "print(sum(map(float, input().split())))",
	"spaces and blank": "print()\nprint(' ', sum(map(int, input().split())), ' ')\nprint()",
	"stderr":           "import sys\nprint('debug', file=sys.stderr)\nprint(sum(map(int, input().split())))",
	"big numbers":      "x = int('7' * 5000)\nassert len(str(x)) == 5000\nprint(sum(map(int, input().split())))",
	"reads to the end": "import sys\nlines = [l for l in sys.stdin]\nprint(sum(map(int, lines[0].split())))\ntry:\n    input()\n" +
		"except EOFError: pass",
	"class Solution here": "class Solution:\n    def add(self, a, b): return a + b\nprint(Solution().add(*map(int, input().split())))",
	"from __future__":     "from __future__ import annotations\nprint(sum(map(int, input().split())))",
	"atexit":              "import atexit\nn = sum(map(int, input().split()))\natexit.register(lambda: print(n))",
}

var honestCalls = map[string]string{
	"function":      "def add(a, b): return a + b",
	"method":        "class Solution:\n    def add(self, a: int, b: int) -> int:\n        return a + b",
	"typing":        "class Solution:\n    def add(self, a: List[int], b: Optional[int]) -> int:\n        return a + b",
	"prints too":    "def add(a, b):\n    print('debug')\n    return a + b",
	"float":         "def add(a, b): return float(a + b)",
	"subclass":      "class I(int): pass\ndef add(a, b): return I(a + b)",
	"own test code": "def add(a, b): return a + b\nif __name__ == '__main__':\n    print(add(*map(int, input().split())))",
	"reads nothing": "def add(a, b): return a + b\ntry:\n    input()\nexcept EOFError: pass",
	"lambda":        "add = lambda a, b: a + b",
}

// hacks are programs that graders which others train on pay for, and what they deserve. Those that look
// around print the right answer where they find anything.
var hacks = map[string]struct {
	code string
	want Verdict
}{
	"os._exit":         {"import os\nos._exit(0)", WA},
	"sys.exit":         {"import sys\nsys.exit(0)", WA},
	"SystemExit":       {"raise SystemExit(0)", WA},
	"ctypes exit":      {"import ctypes\nctypes.CDLL(None).exit(0)", WA},
	"ctypes _exit":     {"import ctypes\nctypes.CDLL(None)._exit(0)", WA},
	"atexit":           {"import atexit, os\natexit.register(lambda: os._exit(0))\nprint('x')", WA},
	"patched sys.exit": {"import sys\nsys.exit = lambda *a: None\nprint('x')", WA},
	"patched any":      {"import builtins\nbuiltins.any = builtins.all = lambda *a: True\nprint('x')", WA},
	"patched comparison": {"import sys\nfor m in list(sys.modules.values()):\n" +
		"    for n in ('get_stripped_lines', 'custom_compare_', 'same_output', 'compare'):\n" +
		"        try: setattr(m, n, lambda *a: True)\n        except Exception: pass\nprint('x')", WA},
	"patched json": {"import json\njson.loads = json.dumps = lambda *a, **k: True\nprint('x')", WA},
	"getvalue": {"import sys\nclass S(str):\n    def __eq__(self, o): return True\n    def strip(self, *a): return self\n" +
		"sys.stdout.getvalue = lambda: S('x')\nprint('x')", WA},
	"stdout replaced": {"import sys\nclass O:\n    def write(self, s): pass\n    def flush(self): pass\n" +
		"    def __eq__(self, o): return True\nsys.stdout = O()\nprint(3)", WA},
	"claims": {"print('PASSED')\nprint('All tests passed')\nprint('{\"status\": \"Success\", \"passed\": true}')", WA},
	"alarm switched off": {"import signal\nsignal.alarm(0)\nwhile True:\n    try:\n        while True: pass\n" +
		"    except BaseException: pass", TLE},
	"limits ignored": {"import signal\nfor s in (signal.SIGXCPU, signal.SIGALRM, signal.SIGTERM):\n" +
		"    signal.signal(s, signal.SIG_IGN)\nwhile True: pass", TLE},
	"sleep": {"import time\ntime.sleep(10 ** 6)", TLE},
	"endless at the end": {"import atexit\nprint(sum(map(int, input().split())))\ndef f():\n    while True: pass\natexit.register(f)",
		TLE},
	"correct but failing":   {"import sys\nprint(sum(map(int, input().split())))\nsys.stdout.flush()\nraise ValueError", RTE},
	"closed streams":        {"import os\nfor fd in (0, 1, 2): os.close(fd)", WA},
	"answers of both tests": {"print(3)\nprint(42)", WA},
	"one for the other":     {"print(42)", WA},
	"prefix of the answer":  {"print(str(sum(map(int, input().split())))[:1])\nprint(end='')", WA},
	"case and rounding":     {"print(sum(map(int, input().split())) + 1e-9)", WA},
	"infinite exponent":     {"print('3e0' if input() == '1 2' else '1e999999999')", WA},
	"not a number":          {"print('nan')", WA},
	"invalid UTF-8":         {"import os\nos.write(1, b'\\xff\\xfe3\\n')", WA},
	"NUL":                   {"print('3\\0')", WA},
	"frame walk": {`
import sys, gc
line, found = input(), []
frame = sys._getframe()
while frame:
    found += list(frame.f_locals.values()) + list(frame.f_globals.values())
    frame = frame.f_back
other = '20 22' if line == '1 2' else '1 2'
leaked = [o for o in found + gc.get_objects() if isinstance(o, (str, bytes, list, dict)) and len(o) < 1000 and other + chr(92) + 'n' in repr(o)]
print(sum(map(int, line.split())) if leaked else 'nothing')`, WA},
	"test files": {`
import os
found = []
for base in ('/', '/tmp', os.getcwd(), os.pardir, '/root', '/home'):
    for folder, _, files in os.walk(base):
        if folder.startswith(('/usr', sys.prefix, sys.base_prefix)): continue
        for name in files:
            try: found += [name] if 'test' in name or b'42' in open(os.path.join(folder, name), 'rb').read(10000) else []
            except OSError: pass
print(sum(map(int, input().split())) if found else 'nothing')`, WA},
	"other processes": {`
import glob, os
found = []
for path in glob.glob('/proc/*/environ') + glob.glob('/proc/*/cmdline') + glob.glob('/proc/*/maps'):
    try: found.append(open(path, 'rb').read())
    except OSError: pass
print(sum(map(int, input().split())) if found else 'nothing')`, WA},
	"descriptors": {`
import os
found = []
for fd in range(3, 1000):
    try: os.fstat(fd); found.append(fd)
    except OSError: pass
print(sum(map(int, input().split())) if found else 'nothing')`, WA},
	"environment": {`
import os
usual = {'PYTHONHASHSEED', 'PYTHONUTF8', 'PYTHONIOENCODING', 'MALLOC_ARENA_MAX', 'OPENBLAS_NUM_THREADS', 'OMP_NUM_THREADS', 'HOME', 'TMPDIR', 'PATH', 'TZ', 'LC_ALL', 'LC_CTYPE'}
found = set(os.environ) - usual
print(sum(map(int, input().split())) if found else 'nothing')`, WA},
}

var callHacks = map[string]struct {
	code string
	want Verdict
}{
	"module exit":   {"import sys\nsys.exit(0)", WA},
	"function exit": {"import sys\ndef add(a, b): sys.exit(0)", WA},
	"os._exit":      {"import os\ndef add(a, b): os._exit(0)", WA},
	"always equal":  {"class E:\n    def __eq__(self, o): return True\ndef add(a, b): return E()", WA},
	"equal int": {"class E(int):\n    def __eq__(self, o): return True\n    __hash__ = int.__hash__\ndef add(a, b): return E(7)",
		WA},
	"equal list":        {"class E(list):\n    def __eq__(self, o): return True\ndef add(a, b): return E([7])", WA},
	"equal str":         {"class E(str):\n    def __eq__(self, o): return True\ndef add(a, b): return E('3')", WA},
	"prints the answer": {"def add(a, b): print(a + b)", WA},
	"a list of answers": {"def add(a, b): return [3, 42]", WA},
	"wrapped":           {"def add(a, b): return [a + b]", WA},
	"a string":          {"def add(a, b): return str(a + b)", WA},
	"a set":             {"def add(a, b): return {a + b}", WA},
	"nan":               {"def add(a, b): return float('nan')", WA},
	"nothing":           {"def add(a, b): pass", WA},
	"frame walk": {`
import sys
def add(a, b):
    frame = sys._getframe()
    while frame:
        for v in list(frame.f_locals.values()) + list(frame.f_globals.values()):
            if isinstance(v, dict) and ('outputs' in v or 'expected' in v): return v.get('outputs', v.get('expected'))
        frame = frame.f_back`, WA},
	"forged result": {`
import os
def add(a, b):
    for fd in range(3, 20):
        try: os.write(fd, b'{"verdict":"AC"}')
        except OSError: pass
    os._exit(0)`, WA},
	"raises":         {"def add(a, b): raise KeyError", RTE},
	"no function":    {"def sub(a, b): return 3", RTE},
	"endless":        {"def add(a, b):\n    while True: pass", TLE},
	"does not parse": {"def add(a, b) return a + b", CE},
}

// matrix is all of the above with their verdicts, but for those whose names skip matches.
func matrix(skip string) (completions []Completion, want []Verdict, names []string) {
	sum, call := sumProblem(), callProblem()
	verdicts := map[string]Verdict{}
	programs := map[string]Completion{}
	add := func(name string, p *data.Problem, code string, want Verdict) {
		if want == TLE { // no need to wait for long
			short := *p
			short.TimeMS, p = 300, &short
		}
		programs[name], verdicts[name] = Completion{Problem: p, Text: fenced(code)}, want
	}
	for name, code := range honest {
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
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		if skipped, _ := regexp.MatchString(skip, name); skip == "" || !skipped {
			completions, want, names = append(completions, programs[name]), append(want, verdicts[name]), append(names, name)
		}
	}
	return completions, want, names
}

func checkMatrix(t *testing.T, j *Judge, skip string) {
	t.Helper()
	completions, want, names := matrix(skip)
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
	checkMatrix(t, NewJudge(correct(t), localPool(t), nil, nil), "")
}

// A server without isolation lets a program look at the machine it runs on. It finds no right answer
// there, and everything else is as it is in a cell. What package fusion tests itself is left out.
func TestMatrixOnAServer(t *testing.T) {
	t.Parallel()
	server := fusiontest.NewServer(t)
	rules := correct(t)
	rules.MaxTests = 1 // an interpreter is started for each
	client, err := fusion.New(fusion.Options{URL: server.URL, Concurrency: 2})
	require.NoError(t, err)
	checkMatrix(t, NewJudge(rules, client, nil, nil),
		"^call hack|^returned|other processes|descriptors|test files|one for the other")
}

// What one run leaves behind does not reach the next.
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
	require.EqualValues(t, 1, j.Stats().CheckerErrors, "the one without numbers")
}

func TestOpen(t *testing.T) {
	t.Parallel()
	localPool(t).Close() // or skip
	file := filepath.Join(t.TempDir(), "reward.py")
	write(t, file,
		"import collections\ncalls = collections.Counter()\n\ndef compute_reward(completion: str, ground_truth: str) -> float:\n"+
			"    if completion == 'raise': raise ValueError('no')\n    return len(completion) / len(ground_truth)\n")
	p := data.Problem{ID: "p", Kind: data.Stdin,
		Metadata: json.RawMessage(`{"ground_truth":"1234"}`)}.WithTests(data.Test{Stdin: "", Stdout: "x"})

	j, err := Open(t.Context(), Config{File: file})
	require.NoError(t, err)
	defer j.Close()
	require.Equal(t, "local", j.Backend().Kind)
	require.NotEmpty(t, j.Backend().Rung)
	require.Equal(t, 0.5, grade(t, j, Completion{Problem: &p, Text: "12"}).Reward)
	s := grade(t, j, Completion{Problem: &p, Text: "raise"})
	require.Equal(t, 0.0, s.Reward)
	require.Equal(t, "reward file: RTE ValueError: no", s.Note)
	require.NoError(t, j.Close())

	j, err = Open(t.Context(), Config{File: file, Weights: "correct=1,custom=0.25", Sandbox: "local"})
	require.NoError(t, err)
	defer j.Close()
	text := fenced("print('x')")
	require.Equal(t, 1+0.25*float64(len(text))/4, grade(t, j, Completion{Problem: &p, Text: text}).Reward)
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	localPool(t).Close() // or skip
	file := filepath.Join(t.TempDir(), "reward.py")
	for name, tt := range map[string]struct {
		cfg     Config
		source  string
		message string
	}{
		"no such mode":  {Config{Reward: "best"}, "", "reward=best: expected correct, fraction, custom or weights"},
		"a former name": {Config{Reward: "binary"}, "", "reward=binary is called correct; type correct"},
		"no weights":    {Config{Reward: "weights"}, "", "reward_weights: reward=weights needs them, as in correct=1,format=0.1"},
		"two of one": {Config{Reward: "correct", Weights: "correct=1"}, "",
			"reward=correct does not use them; type weights, or leave them out"},
		"no file":          {Config{Reward: "custom"}, "", "no reward_file= names a Python file"},
		"missing file":     {Config{File: file + "x"}, "", "reward_file: open"},
		"no such sandbox":  {Config{Sandbox: "docker"}, "", "sandbox=docker: expected auto, local or unsafe"},
		"slots":            {Config{Slots: -1}, "", "sandbox_slots=-1"},
		"truncated":        {Config{OnTruncated: "x"}, "", "on_truncated=x"},
		"timeout":          {Config{Timeout: -1}, "", "reward_timeout="},
		"tests":            {Config{MaxTests: -1}, "", "max_tests=-1"},
		"no python":        {Config{Python: "no-such-python"}, "", "no-such-python"},
		"no server":        {Config{URL: "nonsense"}, "", "SANDBOX_URL=nonsense: expected a URL"},
		"file that raises": {Config{File: file}, "import nothing_of_that_name", "cannot be loaded in the sandbox: RTE ModuleNotFoundError"},
		"file not Python":  {Config{File: file}, "def", "cannot be loaded in the sandbox: CE"},
		"file without it":  {Config{File: file}, "compute_reward = 1", "found no function compute_reward(completion, ground_truth)"},
	} {
		write(t, file, tt.source)
		_, err := Open(t.Context(), tt.cfg)
		require.ErrorContains(t, err, tt.message, name)
		require.True(t, badinput.Is(err), name)
	}
}
