package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// namedTasks writes problems with ids.
func namedTasks(t *testing.T) string {
	t.Helper()
	path := tasks(t)
	lines := strings.Replace(taskLines, `{"prompt":"Double."`, `{"id":"twice","prompt":"Double."`, 1)
	require.NoError(t, os.WriteFile(path, []byte(lines), 0o644))
	return path
}

// completionsFor writes lines of completions.
func completionsFor(t *testing.T, pairs ...[2]string) string {
	t.Helper()
	var lines strings.Builder
	for _, p := range pairs {
		text, err := json.Marshal(map[string]string{"problem": p[0], "completion": p[1]})
		require.NoError(t, err)
		fmt.Fprintf(&lines, "%s\n", text)
	}
	path := filepath.Join(t.TempDir(), "completions.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(lines.String()), 0o644))
	return path
}

func fenced(code string) string { return "Here it is.\n\n```python\n" + code + "\n```\n" }

func TestReward(t *testing.T) {
	needsSandbox(t)
	t.Setenv("SANDBOX_URL", "")
	path := namedTasks(t)
	completions := completionsFor(t,
		[2]string{"add", "I do not know."},
		[2]string{"add", fenced("a, b = map(int, input().split())\nprint(a + b)")},
		[2]string{"add", fenced("print(3)")},
		[2]string{"twice", fenced("def twice(x): return x + x")},
		[2]string{"add", fenced("import os\nos._exit(0)")},
		[2]string{"add", fenced("print(")},
	)
	out, errOut, code := shell(t, "", "reward", "--problems", path, "--completions", completions)
	require.Zero(t, code, errOut)
	want := []string{
		`{"problem":"add","reward":-0.1,"format":-1,"correct":0,"passed":0,"total":2,"verdict":"","tests":[]}`,
		`{"problem":"add","reward":1,"format":0,"correct":1,"passed":2,"total":2,"verdict":"AC","tests":["AC","AC"]}`,
		`{"problem":"add","reward":0,"format":0,"correct":0,"passed":1,"total":2,"verdict":"WA","tests":["AC","WA"]}`,
		`{"problem":"twice","reward":1,"format":0,"correct":1,"passed":1,"total":1,"verdict":"AC","tests":["AC"]}`,
		`{"problem":"add","reward":0,"format":0,"correct":0,"passed":0,"total":2,"verdict":"WA","tests":["WA","WA"]}`,
		`{"problem":"add","reward":0,"format":0,"correct":0,"passed":0,"total":2,"verdict":"CE","tests":["CE",""]}`,
	}
	require.Equal(t, want, withoutTime(t, out))
	require.Contains(t, errOut, "6 completions: 2 AC 2 WA 1 CE 1 not run\n")

	out, errOut, code = shell(t, `{"problem":"add","completion":"print(3)","step":7}`+"\n",
		"reward", "--problems", path, "--completions", "-", "--program", "--reward", "fraction")
	require.Zero(t, code, errOut)
	require.Contains(t, out, `"reward":0.5,`)
}

// withoutTime removes the time from each line, and requires that it was there.
func withoutTime(t *testing.T, out string) (lines []string) {
	t.Helper()
	for line := range strings.Lines(out) {
		before, after, found := strings.Cut(strings.TrimSpace(line), `,"cpu_ms":`)
		require.True(t, found, line)
		lines = append(lines, before+after[strings.IndexAny(after, ",}"):])
	}
	return lines
}

func TestRewardFile(t *testing.T) {
	needsSandbox(t)
	t.Setenv("SANDBOX_URL", "")
	path := namedTasks(t)
	file := filepath.Join(t.TempDir(), "length.py")
	require.NoError(t, os.WriteFile(file, []byte("def compute_reward(completion, ground_truth):\n    return 1 / len(completion)\n"), 0o644))
	completions := completionsFor(t, [2]string{"add", "12"}, [2]string{"add", ""})
	out, errOut, code := shell(t, "", "reward", "--problems", path, "--completions", completions, "--reward-file", file)
	require.Zero(t, code, errOut)
	require.Contains(t, out, `{"problem":"add","reward":0.5,"format":-1,`)
	require.Contains(t, out, `"custom":0.5}`)
	require.Contains(t, out, `{"problem":"add","reward":null,"format":-1,`)
	require.Contains(t, out, `,"excluded":"reward_file","note":"reward file: RTE ZeroDivisionError: division by zero (line 2)"}`)
	require.Contains(t, errOut, "reward_file="+file+" failed on 1 completion; the first time: RTE ZeroDivisionError")
	require.NoError(t, os.WriteFile(file, []byte("def compute_reward(completion, ground_truth):\n    return 'good'\n"), 0o644))
	out, errOut, code = shell(t, "", "reward", "--problems", path, "--completions", completions, "--reward-file", file)
	requireBadInput(t, out, errOut, code, "reward_file="+file+" fails on a trial completion of problem add", `returned "good"`)
}

// A problem whose checker cannot be used is refused, and the others are scored.
func TestACheckerThatCannotBeUsedIsRefused(t *testing.T) {
	needsSandbox(t)
	t.Setenv("SANDBOX_URL", "")
	path := write(t, filepath.Join(t.TempDir(), "p.jsonl"), `{"id":"good","prompt":"a","tests":[{"stdin":"","stdout":"1"}]}`+"\n"+
		`{"id":"bad","prompt":"b","checker":"def chekc(i, o, e): pass","tests":[{"stdin":"","stdout":"1"}]}`+"\n")
	_, errOut, code := shell(t, "", "reward", "--problems", path, "--completions", completionsFor(t, [2]string{"good", "x"}))
	require.Zero(t, code, errOut)
	require.Contains(t, errOut, "problem bad is refused: its checker cannot be used: found no function check(input, output, expected)")
	_, errOut, code = shell(t, "", "reward", "--problems", path, "--completions", completionsFor(t, [2]string{"bad", "x"}))
	require.Equal(t, exitBadInput, code)
	require.Contains(t, errOut, `problem "bad" is not in`)
}

func TestRewardRefuses(t *testing.T) {
	needsSandbox(t)
	t.Setenv("SANDBOX_URL", "")
	path := namedTasks(t)
	for message, args := range map[string][]string{
		"--problems and --completions are needed":                      {"--problems", path},
		"--completions: open":                                          {"--problems", path, "--completions", "/nowhere"},
		`standard input:1: expected {"problem":"id","completion":"…"}`: {"--problems", path, "--completions", "-"},
		"--reward-timeout: found 0":                                    {"--problems", path, "--completions", "-", "--reward-timeout", "0"},
		"reward=most: expected correct":                                {"--problems", path, "--completions", "-", "--reward", "most"},
		"--judge-url: there is no judge":                               {"--problems", path, "--completions", "-", "--judge-slots", "2"},
		"type --reward weights --reward-weights judge=1": {
			"--problems", path, "--completions", "-", "--judge-url", "http://127.0.0.1:1/v1", "--judge-model", "m"},
		"reward=binary is called correct; type correct": {"--problems", path, "--completions", "-", "--reward", "binary"},
	} {
		out, errOut, code := shell(t, `{"problem":"add"}`, append([]string{"reward"}, args...)...)
		require.Equal(t, exitBadInput, code, message)
		require.Empty(t, out)
		require.Contains(t, errOut, message)
		require.Equal(t, 1, strings.Count(errOut, "\n"))
	}
	// The lines before a bad line are scored.
	out, errOut, code := shell(t, `{"problem":"add","completion":""}`+"\n"+`{"problem":"sub","completion":""}`,
		"reward", "--problems", path, "--completions", "-")
	require.Equal(t, exitBadInput, code)
	require.Contains(t, out, `"reward":-0.1`)
	require.Contains(t, errOut, `standard input:2: problem "sub" is not in `+path)
}
