package fault

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// A note on a missing module or column says what to do about it; a note on a failure in the file has the line.
func TestNotes(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "helpers.py"), nil, 0o644))
	const trace = "Traceback (most recent call last):\n  File \"preload.py\", line 2, in f\n  File \"preload.py\", line 9, in g\n"
	absent := func(name string) string { return "ModuleNotFoundError: No module named '" + name + "'" }
	for _, c := range []struct {
		note, stderr string
		apart        bool
		want         string
	}{
		{"", "whatever it wrote", false, ""},
		{"RTE x", trace + "KeyError: 'x'", false, "RTE x (line 2)"},
		{"RTE x", absent("numpy.linalg"), false, "RTE x; type reward_python=FILE for an interpreter that has it"},
		{"RTE x", absent("numpy"), true, "RTE x; install it for the interpreter of reward_python"},
		{"RTE x", absent("helpers"), true,
			"RTE x; it lies beside the reward file, which is loaded alone: put what it needs of that into the file itself"},
		{"RTE x", "ModuleNotFoundError: import of y halted; None in sys.modules", true,
			"RTE x; install it for the interpreter of reward_python"},
		{"RTE x", "TypeError: f() missing 1 required positional argument: 'level'", false,
			"no column 'level' in the row, for a parameter without a default: RTE x"},
		{"RTE x", "TypeError: f() missing 2 required positional arguments: 'level' and 'match'", false,
			"no column 'level' and 'match' in the row, for a parameter without a default: RTE x; of the columns that grpo reads it passes on " +
				"id, prompt (also for question and problem), source, metadata and answer"},
		{"RTE x", trace + "FileNotFoundError: [Errno 2] No such file or directory: 'x.txt'", false, "RTE x (line 2); the reward file is alone " +
			"in the sandbox, without the files beside it: put what it needs of them into the file itself"},
		{"RTE x", "NameError: name '__file__' is not defined", false, "RTE x; the reward file is alone in the sandbox, without the files " +
			"beside it: put what it needs of them into the file itself"},
		{"no value: JSON cannot carry a value of type Decimal", "", false, "no value: JSON cannot carry a value of type Decimal; return a float"},
		{"RTE x", trace + "TypeError: f() missing 1 required positional argument: 'level'", false, "RTE x (line 2)"},
	} {
		f := Of(filepath.Join(dir, "r.py"), "1\n2\n3\n", c.apart)
		got := f.Note(c.note, "compute_reward", sandbox.Result{Status: sandbox.RTE, Stderr: c.stderr}, sandbox.Limits{})
		require.Equal(t, c.want, got, c.stderr)
	}
	slow := sandbox.Result{Status: sandbox.TLE}
	require.Equal(t, "TLE, time limit exceeded: it was allowed 6 s of processor time, and 13 s if it sleeps",
		File{}.Note("TLE", "", slow, sandbox.Limits{CPU: 6 * time.Second}))
	require.Contains(t, File{}.Note("TLE", "", slow, sandbox.Limits{CPU: 6 * time.Second, Wall: time.Second}), "and 1 s if it sleeps")
	infinite := sandbox.Result{Status: sandbox.OK, Stderr: "ValueError: Out of range float values are not JSON compliant"}
	require.Equal(t, "f returned nan or an infinity, expected a finite number", File{}.Note("no value", "f", infinite, sandbox.Limits{}))
}
