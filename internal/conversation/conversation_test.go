package conversation

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/episode"
	"github.com/seed-7879b91d/grpo/internal/judging"
	"github.com/seed-7879b91d/grpo/internal/plainpython"
	"github.com/seed-7879b91d/grpo/internal/sources"
	"github.com/seed-7879b91d/grpo/sampler"
)

func TestMain(m *testing.M) {
	plainpython.SetPath()
	m.Run()
}

// openParts opens what conversations of the embedded model need, the sandbox included.
func openParts(t *testing.T, words ...string) (*configs.Config, *sources.Language, *judging.Judging, data.Problem) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not on PATH, and programs are Python")
	}
	cfg, err := configs.Load(configs.Source{Preset: "tiny_heal", Overrides: words})
	require.NoError(t, err)
	l, err := sources.OpenLanguage(t.Context(), cfg)
	require.NoError(t, err)
	j, err := judging.Open(t.Context(), cfg, nil, nil, &sources.Problems{}, func(string) {})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	p := data.Problem{ID: "plus", Source: "tiny", Statement: "Given one line with an integer p, print p plus 5.", Kind: data.Stdin}
	return cfg, l, j, p.WithTests(data.Test{Stdin: "37\n", Stdout: "42\n"}, data.Test{Stdin: "48\n", Stdout: "53\n"},
		data.Test{Stdin: "5\n", Stdout: "10\n"}, data.Test{Stdin: "27\n", Stdout: "32\n"})
}

func said(text string, turn int, last bool) episode.Said {
	return episode.Said{Raw: text, Text: text, Turn: turn, Last: last, Finish: sampler.Stop, Tokens: 9, MaxTokens: 96}
}

const (
	wrong = "```python\nprint(int(input()) + 6)\n```"
	right = "```python\nprint(int(input()) + 5)\n```"
)

// Each prompt describes the tools, and the model can call them.
func TestToolsAreOffered(t *testing.T) {
	cfg, l, j, p := openParts(t, "env=tools", "public_tests=1")
	_, before, err := l.Prompt(t.Context(), &p)
	require.NoError(t, err)
	r, err := Open(t.Context(), cfg, l, j, &sources.Problems{}, nil)
	require.NoError(t, err)
	_, text, err := l.Prompt(t.Context(), &p)
	require.NoError(t, err)
	for _, name := range []string{"python", "run_tests", "trace"} {
		require.NotContains(t, before, name+`"`)
		require.Contains(t, text, name+`"`)
	}
	e, err := r.env.Open(t.Context(), &p)
	require.NoError(t, err)
	call := said("", 0, false)
	call.Calls = []episode.Call{{Name: "run_tests", Arguments: []byte(`{"code": "print(42)"}`), ID: "call00000"}}
	a, err := e.Turn(t.Context(), call)
	require.NoError(t, err)
	require.Equal(t, "1 of 1 public tests pass\ntest 1: passes", a.Messages[0].Content)
	call.Calls[0].Arguments = []byte(`{}`)
	a, err = e.Turn(t.Context(), call)
	require.NoError(t, err)
	require.Equal(t, 1, a.Wrong)
	call.Last, call.Raw = true, right
	a, err = e.Turn(t.Context(), call)
	require.NoError(t, err)
	require.Equal(t, []any{true, 1.0}, []any{a.Over, a.Reward}, "the last turn is graded, whatever it calls")
	require.NoError(t, e.Close())
	_, err = Open(t.Context(), cfg, l, &judging.Judging{}, nil, nil)
	require.EqualError(t, err, "env=tools runs programs in a sandbox, and the grader is the program's own; type env=own or none")
}

func init() { startupGrace = time.Millisecond } // a program that ends at once is noticed at the first question, too

// If a program fails, the error is one line that says how.
func TestProgramsThatFail(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not on PATH")
	}
	for text, message := range map[string]string{
		"import sys\nfor l in sys.stdin: print('{}', flush=True)": "",
		"input()\nraise ValueError('no such thing')":              "ended without an answer: ValueError: no such thing",
		"input()": "ended without an answer; it must answer each line that it reads, until",
		"input()\nprint('hello', flush=True)\ninput()":                `answered "hello"`,
		"input()\nprint('{\"over\": 1}', flush=True)":                 `answered "{\"over\": 1}" (field "over": found a JSON number,`,
		"input()\nprint('{\"error\": \"my bad\"}', flush=True)":       "reports: my bad",
		"input()\nprint('{} {\"over\": true}', flush=True)":           `answered "{} {\"over\": true}" (found "{\"over\": true}" at byte 3,`,
		"import sys\ninput()\nwhile 1: sys.stdout.write('x' * 65536)": "answered with a line of more than 16 MiB; make it shorter",
		"import time\ntime.sleep(9)": "gave no answer within turn_seconds=0.1; make it faster, or raise " +
			"turn_seconds",
	} {
		path := filepath.Join(t.TempDir(), "env.py")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		cfg := &configs.Config{Env: "program:" + path, Python: "python3", TurnSeconds: 60}
		if strings.Contains(text, "sleep") {
			cfg.TurnSeconds = 0.1
		}
		r, err := Open(t.Context(), cfg, &sources.Language{}, &judging.Judging{}, nil, nil)
		require.NoError(t, err)
		e, err := r.env.Open(t.Context(), &data.Problem{ID: "p", Kind: data.Stdin})
		if message != "" {
			require.ErrorContains(t, err, "env=program:"+path+" "+message)
			require.True(t, badinput.Is(err))
		} else {
			require.NoError(t, err)
			a, err := e.Turn(t.Context(), said("x", 0, true))
			require.NoError(t, err)
			require.Equal(t, episode.Answer{}, a)
			_, err = e.Turn(t.Context(), said("x", 0, false))
			require.ErrorContains(t, err, `answered a turn without "messages" and without "over": true; unless "last" is true, one of them is `+
				`needed`)
			require.NoError(t, e.Close())
		}
		require.NoError(t, r.Close())
	}
	_, err := Open(t.Context(), &configs.Config{Env: "program:./none.py"}, &sources.Language{}, &judging.Judging{}, nil, nil)
	require.EqualError(t, err, "env=program:./none.py: found no such file; expected a program, such as env=program:./env.py")
}

// A file that cannot be a program, or a program that ends at once, is reported at the start, before the model is loaded.
func TestWhatIsNoProgramIsToldAtTheStart(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not on PATH")
	}
	defer func(before time.Duration) { startupGrace = before }(startupGrace)
	startupGrace = time.Minute // ends as soon as the program does
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder.py"), 0o755))
	for _, c := range []struct{ file, text, message string }{
		{"folder.py", "", ": this is no ordinary file; expected a program, such as env=program:./env.py"},
		{"empty.py", " \n", ": the file is empty; expected a program"},
		{"empty", "", ": the file is empty; expected a program"},
		{"syntax.py", "def f(:\n", ": the file is no valid Python: SyntaxError: invalid syntax (for python=" + python + ")"},
		{"text", "hello\n", ": the first line of the file names no interpreter; expected one such as #!/usr/bin/env python3"},
		{"elsewhere", "#!/no/such/python3\nx", `: the first line of the file says "#!/no/such/python3", but there is no such program; expected`},
		{"windows", "#!/bin/sh\r\nx\r\n", `: the first line of the file says "#!/bin/sh\r", but there is no such program; expected`},
		{"module.py", "import nomodule\n", " ended before it was asked anything: ModuleNotFoundError: No module named 'nomodule'; it must"},
		{"once.py", "print('{}')\n", " ended before it was asked anything; it must read questions, one a line, until its input ends"},
		{"closes", "#!/bin/sh\nexec >&-\nread a\n", " ended before it was asked anything; it must"},
		{"garbage", "\x7fELF\x00\x00 not quite", " ended before it was asked anything: "},
	} {
		path := filepath.Join(dir, c.file)
		if c.file != "folder.py" {
			require.NoError(t, os.WriteFile(path, []byte(c.text), 0o755))
		}
		cfg := &configs.Config{Env: "program:" + path, Python: python, TurnSeconds: 60}
		_, err := Open(t.Context(), cfg, &sources.Language{}, &judging.Judging{}, nil, nil)
		require.ErrorContains(t, err, "env=program:"+path+c.message)
		require.True(t, badinput.Is(err), c.file)
	}
	cfg := &configs.Config{Env: "program:" + filepath.Join(dir, "once.py"), Python: "./nosuchpython", TurnSeconds: 60}
	_, err = Open(t.Context(), cfg, &sources.Language{}, &judging.Judging{}, nil, nil)
	require.ErrorContains(t, err, "python=./nosuchpython cannot be started: ")
}

// A program may be started by a script and leave other processes behind, which hold its output open: nobody waits for them.
func TestProgramsThatLeaveOthersBehind(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a script that waits":    "#!/bin/sh\nsh -c 'echo $$ > PID; read a; sleep 300'\ntrue\n",
		"a child with its pipes": "#!/bin/sh\nsleep 300 &\necho $! > PID\nread a; echo '{}'; read a; read a; echo '{}'\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path, pid := filepath.Join(dir, "env.sh"), filepath.Join(dir, "pid")
			require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(text, "PID", pid)), 0o755))
			r, err := Open(t.Context(), &configs.Config{Env: "program:" + path, TurnSeconds: 1}, &sources.Language{}, &judging.Judging{}, nil, nil)
			require.NoError(t, err)
			e, err := r.env.Open(t.Context(), &data.Problem{ID: "p", Kind: data.Stdin})
			if err == nil {
				_, err = e.Turn(t.Context(), said("x", 0, true))
			}
			require.ErrorContains(t, err, "gave no answer within turn_seconds=1")
			require.NoError(t, r.Close())
			text, err := os.ReadFile(pid)
			require.NoError(t, err)
			require.Eventually(t, func() bool { // a process that ended may be a zombie until its new parent reaps it
				state, err := os.ReadFile("/proc/" + strings.TrimSpace(string(text)) + "/stat")
				return err != nil || strings.Contains(string(state), ") Z ")
			}, time.Minute, 10*time.Millisecond)
		})
	}
}

// After an extra line, every answer would belong to another question, so it is an error.
func TestProgramsThatSayTooMuch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "env.sh")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\necho '{}'\nwhile read a; do echo '{}'; done\n"), 0o755))
	r, err := Open(t.Context(), &configs.Config{Env: "program:" + path, TurnSeconds: 60}, &sources.Language{}, &judging.Judging{}, nil, nil)
	require.NoError(t, err)
	for err == nil {
		_, err = r.env.Open(t.Context(), &data.Problem{ID: "p", Kind: data.Stdin})
	}
	require.ErrorContains(t, err, "env=program:"+path+` printed "{`)
	require.ErrorContains(t, err, "without being asked; print one line for each line read, and everything else to standard error")
	require.NoError(t, r.Close())
}

// An extra answer that arrives after the next question is recognised by the number of its question, if the program repeats it.
func TestProgramsThatAnswerTwice(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not on PATH")
	}
	const twice = `import json, sys
asked = json.loads(sys.stdin.readline())
print(json.dumps(ANSWER), flush=True)
sys.stdin.readline()
print(json.dumps(ANSWER), flush=True)
sys.stdin.readline()
`
	for answer, message := range map[string]string{
		`{"question": asked["question"]}`: " answered question 1 when it was asked question 2; print one line for each line read, " +
			`with its "question"`,
		`{}`: "", // without the number nobody can tell
	} {
		path := filepath.Join(t.TempDir(), "env.py")
		require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(twice, "ANSWER", answer)), 0o644))
		cfg := &configs.Config{Env: "program:" + path, Python: "python3", TurnSeconds: 60}
		r, err := Open(t.Context(), cfg, &sources.Language{}, &judging.Judging{}, nil, nil)
		require.NoError(t, err)
		e, err := r.env.Open(t.Context(), &data.Problem{ID: "p", Kind: data.Stdin})
		require.NoError(t, err)
		_, err = e.Turn(t.Context(), said("x", 0, true))
		if message == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, "env=program:"+path+message)
		}
		require.NoError(t, r.Close())
	}
}

// The statistics of conversations are counted by turn.
func TestStats(t *testing.T) {
	var s Stats
	require.Nil(t, s.Whole())
	turns := make([]sampler.Turn, 3)
	s.Add(&Record{Turns: turns[:1], Most: 3, Ending: episode.Over, Judged: []episode.TurnGrade{{Turn: 0, Correct: true}}}, true)
	s.Add(&Record{Turns: turns[:2], Most: 3, Ending: episode.Over, Judged: []episode.TurnGrade{{Turn: 0}, {Turn: 1, Correct: true}}}, true)
	s.Add(&Record{Turns: turns, Most: 3, Ending: episode.OutOfTurns, Calls: 4, Wrong: 1}, false)
	s.Add(&Record{Turns: turns[:2], Most: 3, Ending: episode.Over}, true)
	w := s.Whole()
	require.Equal(t, []float64{0.25, 0.75, 0.75}, w.SolvedByTurn)
	require.InDelta(t, 2.0/3, w.Healed, 1e-12)
	require.Equal(t, []any{2.0, 4, 1, 3, 1}, []any{w.Turns, w.Calls, w.Wrong, w.Endings[episode.Over], w.Endings[episode.OutOfTurns]})
	require.Equal(t, "solved by turn 0.250 0.750 0.750", w.String())
	var early Stats
	early.Add(&Record{Turns: turns, Most: 3, Ending: episode.Over, Judged: []episode.TurnGrade{{Turn: 1, Correct: true}}}, true)
	require.Equal(t, []float64{0, 1, 1}, early.Whole().SolvedByTurn, "as of the turn that was judged last")

	r := Record{Turns: []sampler.Turn{{Start: 0, End: 3}, {Start: 5, End: 9}}, Most: 2}
	require.Equal(t, [][2]int{{10, 13}, {15, 19}}, r.Spans(10, 9))
	require.Equal(t, 7, r.Drawn(9))
	require.True(t, r.Within(9))
	require.False(t, r.Within(8))
	r.Turns[1].Start = 2
	require.False(t, r.Within(9))
	require.Equal(t, 9, (*Record)(nil).Drawn(9))
}
