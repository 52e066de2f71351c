package reward

import (
	"context"
	"encoding/json"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// A reward file that cannot work is refused before anything is scored, with its name and Python's message.
func TestARewardFileIsTried(t *testing.T) {
	t.Parallel()
	localPool(t).Close() // or skip
	file := filepath.Join(t.TempDir(), "reward.py")
	p := data.Problem{ID: "p", Kind: data.Stdin}.WithTests(data.Test{Stdin: "", Stdout: "x"})
	for body, message := range map[string]string{
		"return {}['x']":                                    "RTE KeyError: 'x'",
		"return '0.5'":                                      `compute_reward returned "0.5", expected a finite number`,
		"return None":                                       "compute_reward returned null, expected a finite number",
		"return float('nan')":                               "compute_reward returned nan or an infinity, expected a finite number",
		"return float(open('/etc/shadow'))":                 "RTE ",
		"import socket; socket.socket()":                    "RTE ",
		"return json.loads(ground_truth)[7]":                "RTE IndexError",
		"return len(json.loads(ground_truth)[0]['stdout'])": "",
	} {
		write(t, file, "import json\n\ndef compute_reward(completion, ground_truth):\n    "+body+"\n")
		j, err := Open(t.Context(), Config{File: file, Slots: 1})
		require.NoError(t, err)
		err = j.Try(t.Context(), &p)
		require.NoError(t, j.Close())
		if message == "" {
			require.NoError(t, err, body)
			continue
		}
		require.True(t, badinput.Is(err), body)
		require.ErrorContains(t, err, "reward_file="+file+" fails on a trial completion of problem p: ", body)
		require.ErrorContains(t, err, message, body)
	}
}

// A completion on which the reward file fails is excluded and reported; too many of them stop the run.
func TestARewardFileThatFailsIsTold(t *testing.T) {
	file := &fake{programs: map[string]func(sandbox.Input) sandbox.Result{
		"compute_reward": func(in sandbox.Input) sandbox.Result {
			if string(in.Args[0]) == `"fail"` {
				return sandbox.Result{Status: sandbox.RTE, Stderr: "Traceback\nKeyError: 'x'\n"}
			}
			return sandbox.Result{Status: sandbox.OK, Value: json.RawMessage("1"), Stderr: "slow\n\nslow\nand loud\na\nb\nc\nd\n"}
		},
	}}
	j := NewJudge(Rules{Weights: Weights{Custom: 1}, InfraLimit: 2}, newFake(), nil, file)
	j.custom.file = "r.py"
	p := echoProblem("p", 1)
	require.NoError(t, j.Try(t.Context(), p))
	grade(t, j, Completion{Problem: p, Text: "fine"})
	for range 2 {
		require.Equal(t, ExcludedCustom, grade(t, j, Completion{Problem: p, Text: "fail"}).Excluded)
	}
	require.Equal(t, []string{"reward_file=r.py failed on 2 completions; the first time: RTE KeyError: 'x'",
		"reward_file=r.py writes to standard error: slow", "reward_file=r.py writes to standard error: and loud",
		"reward_file=r.py writes to standard error: a", "reward_file=r.py writes to standard error: b",
		"reward_file=r.py writes to standard error: c"}, j.Warnings())
	require.Empty(t, j.Warnings(), "each warning is given once")
	for range 2 {
		_, err := j.Grade(t.Context(), Completion{Problem: p, Text: "fail"})
		require.EqualError(t, err, "the reward file failed on 3 of the last 4 completions, most recently: reward file: RTE KeyError: 'x'; "+
			"fix it and resume with allow_change=reward_file, or set infra_threshold above 2 to tolerate that many")
		require.True(t, badinput.Is(err))
	}
	unweighed := NewJudge(Rules{Weights: Weights{Correct: 1}}, newFake(), nil, file)
	s := grade(t, unweighed, Completion{Problem: p, Text: "fail"})
	require.Empty(t, s.Excluded, "a reward that does not depend on the file is there")
	require.Equal(t, "reward file: RTE KeyError: 'x'", s.Note)
}

func TestCheckersAreLookedAt(t *testing.T) {
	t.Parallel()
	pool := localPool(t)
	defer pool.Close()
	j := NewJudge(correct(t), pool, pool, nil)
	var problems []data.Problem
	for _, checker := range []string{
		"", "def check(input, output, expected):\n    return True\n", "def check(input output):\n    return True\n",
		"def chekc(input, output, expected):\n    return True\n", "check = lambda i, o, e: True", "from math import *",
		"def check(input output):\n    return True\n", "def other():\n    def check(i, o, e): return True\n", "check\n", "x = '\x00'",
		"import sys as check", "raise SystemExit\ndef check(i, o, e): return True",
	} {
		problems = append(problems, data.Problem{ID: "p", Checker: checker})
	}
	faults, err := j.CheckerFaults(t.Context(), problems)
	require.NoError(t, err)
	at := []int{}
	for _, f := range faults {
		at = append(at, f.Index)
		require.NotEmpty(t, f.Why)
	}
	require.Equal(t, []int{2, 3, 6, 7, 8, 9}, at)
	require.Contains(t, faults[0].Why, "SyntaxError: ")
	require.Contains(t, faults[0].Why, "(line 1)")
	require.Equal(t, "found no function check(input, output, expected)", faults[1].Why)
}

func TestRewardsThatAreNoNumbers(t *testing.T) {
	for _, tt := range []struct {
		score Score
		note  string
	}{
		{Score{Reward: 1e38}, ""}, {Score{Reward: -0.1, Components: Components{Format: -1}}, ""},
		{Score{Reward: 1e200},
			"the reward is 1e+200, expected a number of at most 1.7e+38 either way; the completion of problem p begins \"said\""},
		{Score{Components: Components{Custom: 1.7e308}}, "the component custom is 1.7e+308, expected a number of at most 1e+300 either way"},
		{Score{Reward: math.NaN()}, "the reward is NaN, expected"}, {Score{Reward: math.Inf(-1)}, "the reward is -Inf, expected"},
		{Score{Reward: 1, Components: Components{Custom: math.Inf(1)}}, "the component custom is +Inf, expected"},
	} {
		g := Finite(GraderFunc(func(context.Context, Completion) (Score, error) { return tt.score, nil }))
		s := grade(t, g, Completion{Problem: &data.Problem{ID: "p"}, Text: "said"})
		if tt.note == "" {
			require.Equal(t, tt.score, s)
			continue
		}
		require.Equal(t, ExcludedReward, s.Excluded)
		require.Contains(t, s.Note, tt.note)
		_, err := json.Marshal(s)
		require.NoError(t, err)
		require.True(t, s.Excluded.Failed())
	}
	first := Score{Excluded: ExcludedInfra, Note: "why"} // is not overwritten
	spoiled := first
	spoiled.Reward = math.NaN()
	require.Equal(t, first, spoiled.finite(Completion{}))
	require.False(t, ExcludedTruncated.Failed())
	require.False(t, Exclusion("").Failed())
}
