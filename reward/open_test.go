package reward

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

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
	require.Equal(t, ExcludedCustom, s.Excluded)
	require.Equal(t, "reward file: RTE ValueError: no (line 5)", s.Note)
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

// The description of a backend has the right plural.
func TestABackendInWords(t *testing.T) {
	require.Equal(t, "full, 1 slot, Python 3.12.1", Backend{Kind: "local", Rung: "full", Slots: 1, Version: "3.12.1"}.String())
	require.Equal(t, "full, 2 slots, Python 3.12.1", Backend{Kind: "local", Rung: "full", Slots: 2, Version: "3.12.1"}.String())
}

// A closed judge runs nothing any more, in none of its pools.
func TestAClosedJudge(t *testing.T) {
	asserts := data.Problem{ID: "a", Kind: data.Assert, FuncName: "f"}.WithTests(data.Test{Assert: "assert f()"})
	checks := data.Problem{ID: "c", Kind: data.Stdin, Checker: "def check(i, o, e): return True"}.WithTests(data.Test{})
	j, err := Open(t.Context(), Config{Answers: true}) // opens none of its pools
	require.NoError(t, err)
	require.NoError(t, j.Close())
	for _, p := range []*data.Problem{echoProblem("p", 1), &asserts} {
		_, err = j.Grade(t.Context(), Completion{Problem: p, Text: fenced("f = print")})
		require.ErrorIs(t, err, sandbox.ErrClosed, p.ID)
	}
	_, err = j.CheckerFaults(t.Context(), []data.Problem{checks})
	require.ErrorIs(t, err, sandbox.ErrClosed)
}
