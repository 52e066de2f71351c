package tools

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
)

// What attackers look for: the expected output of a hidden test, and a value of another conversation.
const (
	hiddenAnswer = "expected-of-a-hidden-test" // lookAround has them backwards
	otherSecret  = "known-to-another-conversation"
)

// lookAround prints all that a process can reach: its objects, frames, environment, files, descriptors.
const lookAround = `
import gc, os, sys
found = []
for o in gc.get_objects():
    try:
        if isinstance(o, (dict, list, tuple)): found.append(repr(o))
    except BaseException: pass
f = sys._getframe()
while f:
    found += [repr(f.f_locals), repr(f.f_globals)]
    f = f.f_back
found.append(repr(dict(os.environ)))
for d, _, names in os.walk("/tmp"): found += names
for n in range(64):
    try: found.append(repr(os.pread(n, 1 << 20, 0)))
    except OSError: pass
words = ["".join(reversed(w)) for w in ("tset-neddih-a-fo-detcepxe", "noitasrevnoc-rehtona-ot-nwonk")]
secrets = [w for w in words if any(w in t for t in found)]
print("secrets:", secrets)
`

// attacks are programs of the corpus of package sandbox, besides one that looks at everything.
func attacks(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{"look-around": lookAround}
	files, err := filepath.Glob("../sandbox/testdata/hostile/*.py")
	require.NoError(t, err)
	require.Greater(t, len(files), 80)
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".py")
		if soak == 0 && name != "31-reach-into-others" && name != "36-close-standard-descriptors" {
			continue
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		all[name] = string(text)
	}
	return all
}

// TestAttacks: whatever is run, no tool reveals what a hidden test expects or what another conversation knows, or disturbs
// that conversation.
func TestAttacks(t *testing.T) {
	t.Parallel()
	j := sharedJudge(t)
	p := data.Problem{ID: "p", Kind: data.Stdin}.WithTests(
		data.Test{Stdin: "1\n", Stdout: "1\n", Public: true}, data.Test{Stdin: "2\n", Stdout: hiddenAnswer})
	other := openKit(t, p, shortLimits(j))
	require.Equal(t, "(no output)", run(t, other, "secret = "+fmt.Sprintf("%q", otherSecret)))
	for name, code := range attacks(t) {
		t.Run(name, func(t *testing.T) {
			o := shortLimits(j)
			o.CountHidden = true
			if name == "look-around" {
				o.CallTime = 10 * time.Second
			}
			k := openKit(t, p, o)
			for _, tool := range k.Tools() {
				if soak == 0 && tool.Name() == "trace" {
					continue // it runs what run_tests does, only slower
				}
				text := ask(t, k, tool.Name(), map[string]any{"code": code})
				if name == "look-around" { // its own source has what it looks for
					require.Contains(t, text, "secrets: []")
					continue
				}
				require.NotContains(t, text, hiddenAnswer)
				require.NotContains(t, text, otherSecret)
			}
			require.Equal(t, "42", run(t, k, "6 * 7"), "the next call is unharmed")
		})
	}
	require.Equal(t, "'"+otherSecret+"'", run(t, other, "secret"))
}

// TestRunTests: what is shown of public tests, and that nothing is shown of hidden ones.
func TestRunTests(t *testing.T) {
	t.Parallel()
	j := sharedJudge(t)
	p := data.Problem{ID: "p", Kind: data.Stdin}.WithTests(
		data.Test{Stdin: "1 2\n", Stdout: "3\n", Public: true}, data.Test{Stdin: "5 5\n", Stdout: "10\n", Public: true},
		data.Test{Stdin: "7 7\n", Stdout: hiddenAnswer})
	k := openKit(t, p, Options{Judge: j, CountHidden: true})
	check := func(code, want string) {
		t.Helper()
		require.Equal(t, want, ask(t, k, "run_tests", map[string]any{"code": code}))
	}
	check("a, b = map(int, input().split())\nprint(a + b)",
		"2 of 2 public tests pass\ntest 1: passes\ntest 2: passes\nhidden tests: 0 of 1 pass")
	check("a, b = map(int, input().split())\nprint(2 * a + 1)", "1 of 2 public tests pass\ntest 1: passes\ntest 2: wrong answer\n"+
		"  input: 5 5\n  expected: 10\n  got: 11\nhidden tests: 0 of 1 pass")
	check("1 +", "0 of 2 public tests pass\nthe program cannot be compiled:\n"+
		"File \"solution.py\", line 1\n    1 +\n       ^\nSyntaxError: invalid syntax\nhidden tests: 0 of 1 pass")
	large := data.Problem{ID: "large", Kind: data.Stdin}.WithTests(
		data.Test{Stdin: "100 200\n", Stdout: "300\n", Public: true}, data.Test{Stdin: "5 5\n", Stdout: "10\n", Public: true}) // which runs first
	require.Contains(t, ask(t, openKit(t, large, Options{Judge: j}), "run_tests", map[string]any{"code": "1 +"}),
		"0 of 2 public tests pass\nthe program cannot be compiled:\nFile")
	text := ask(t, k, "run_tests", map[string]any{"code": "1 / 0"})
	require.Contains(t, text, "test 1: ended with an error")
	require.Contains(t, text, "ZeroDivisionError")

	call := data.Problem{ID: "f", Kind: data.Call, FuncName: "f"}.WithTests(
		data.Test{Args: rawMessages("[3, 1]", "2"), Returns: rawMessages("[1, 3]")[0]},
		data.Test{Args: rawMessages(`"`+strings.Repeat("x", 9000)+`"`, "0"), Returns: rawMessages("1")[0]})
	k = openKit(t, call, Options{Judge: j, PublicTests: 2, Text: 1000})
	text = ask(t, k, "run_tests", map[string]any{"code": "def f(a, b): return {1} if b else 2"})
	require.Contains(t, text, "test 1: wrong answer\n  input: [3, 1], 2\n  expected: [1, 3]\n  got: (no value that JSON can carry)")
	require.Contains(t, text, "bytes left out")
	require.Contains(t, text, "got: 2")
	text = ask(t, k, "trace", map[string]any{"code": "def f(a, b):\n    a.sort()\n    return a", "test": 1})
	require.Contains(t, text, "# call f(a=[3, 1], b=2)\n   2 |     a.sort()                         # a[0] = 1 (was 3); a[1] = 3 (was 1)")

	k = openKit(t, call, Options{Judge: j})
	require.Equal(t, "this task has no public tests", ask(t, k, "run_tests", map[string]any{"code": "def f(a, b): return 1"}))
}
