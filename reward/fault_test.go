package reward

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/testvariants"
)

// A parameter named like one that is passed by position must be in that position.
func TestParametersInAnotherPlace(t *testing.T) {
	race.SkipCovered(t)
	t.Parallel()
	localPool(t).Close() // or skip
	file := filepath.Join(t.TempDir(), "reward.py")
	for parameters, says := range map[string]string{
		"compute_reward(prompt, completion, ground_truth)": "the parameter completion is in the wrong place",
		"compute_reward(ground_truth, completion)":         "the parameter completion is in the wrong place",
		"compute_reward(completion, x, ground_truth=1)":    "the parameter ground_truth is in the wrong place",
		"compute_reward(ground_truth, *rest)":              "the parameter ground_truth is in the wrong place",
		"compute_rewards(prompts, completions)":            "the parameter completions is in the wrong place",
		"compute_reward(text, truth, prompt)":              "",
		"compute_rewards(completions, ground_truth)":       "",
	} {
		write(t, file, "def "+parameters+":\n    return 1\n")
		j, err := Open(t.Context(), Config{File: file, Slots: 1})
		if says == "" {
			require.NoError(t, err, parameters)
			require.NoError(t, j.Close())
			continue
		}
		require.ErrorContains(t, err, says, parameters)
	}
}

// The message about a mistake in a reward file has its line, and says what to do.
func TestFaultsOfARewardFileAreSaid(t *testing.T) {
	race.SkipCovered(t)
	t.Parallel()
	localPool(t).Close() // or skip
	file := filepath.Join(t.TempDir(), "reward.py")
	write(t, filepath.Join(filepath.Dir(file), "helper.py"), "half = 0.5\n")
	p := data.Problem{ID: "p", Kind: data.Stdin}.WithTests(data.Test{Stdin: "", Stdout: "x"})
	for _, c := range testvariants.EveryNth(2, []struct{ source, says string }{
		{"from helper import half\n",
			"(line 1); it lies beside the reward file, which is loaded alone: put what it needs of that into the file itself"},
		{"x = 1\ndef compute_reward(completion, ground_truth:\n    return 1\n",
			"CE SyntaxError: '(' was never closed (line 2)"},
		{"x = 1\n{}['y']\n",
			"RTE KeyError: 'y' (line 2)"},
		{"import torhc\n",
			"(line 1); type reward_python=FILE for an interpreter that has it"},
		{"def one():\n    import torhc\n\ndef compute_reward(c, g):\n    one()\n",
			"(line 2); type reward_python=FILE"},
		{"def compute_reward(c, g):\n    raise ValueError(3)\n",
			"RTE ValueError: 3 (line 2)"},
		{"def compute_reward(c, g, source):\n    json.loads('x')\n",
			"(char 0) (line 2)"},
		{"def compute_reward(c, g, difficulty):\n    return 1\n",
			"no column 'difficulty' in the row, for a parameter without a default: RTE TypeError"},
		{"def compute_reward(c, g, *, hint, level):\n    return 1\n",
			"no column 'hint' and 'level' in the row"},
		{"def compute_reward(c, g, source):\n    return compute_reward(c, g)\n",
			"RTE TypeError: compute_reward() missing 1 required positional argument: 'source' (line 2)"},
		{"def compute_rewards(completions, difficulty):\n    return [1.0]\n",
			"no column 'difficulty' in the row"},
		{"def compute_reward(c, g):\n    while True: pass\n",
			"TLE, time limit exceeded: it was allowed 0.5 s of processor time, and 2 s if it sleeps"},
		{"def compute_reward(c, g):\n    return float('nan')\n",
			"compute_reward returned nan or an infinity, expected a finite number"},
		{"def compute_rewards(completions):\n    return [float('inf') for _ in completions]\n",
			"compute_rewards returned inf for completion 0, expected a finite number"},
		{"def compute_rewards(completions):\n    return ['x' for _ in completions]\n",
			"RTE ValueError: could not convert string to float: 'x'"},
		{"def compute_rewards(completions):\n    return [None for _ in completions]\n",
			"compute_rewards returned None for completion 0, expected a finite number"},
		{"def compute_reward(c, g):\n    raise ValueError('one error for Point\\nx\\n  see the manual')\n",
			"RTE ValueError: one error for Point (line 2)"},
		{"def compute_reward(c, g):\n    assert c == g, '\\nArrays differ\\n x: 1'\n",
			"RTE AssertionError: Arrays differ (line 2)"},
		{"async def compute_reward(c, g):\n    return 1.0\n",
			"no value the returned value is lost: JSON cannot carry a value of type coroutine"},
		{"def compute_reward(c, g):\n    import datetime\n    return datetime.date(2025, 1, 1)\n",
			"no value the returned value is lost: JSON cannot carry"},
	}...) {
		write(t, file, c.source)
		j, err := Open(t.Context(), Config{File: file, Slots: 1, Timeout: 5e8})
		if err == nil {
			err = j.Try(t.Context(), &p)
			require.NoError(t, j.Close())
		}
		require.ErrorContains(t, err, c.says, c.source)
		require.ErrorContains(t, err, "reward_file="+file, c.source)
	}
}
