package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo"
)

// The default run: the embedded model must get better at held-out problems, and every step must start on policy. With samples that is
// less due to chance than with greedy completions, of which there is one per problem; those must get better, too. make smoke runs it.
func TestSmoke(t *testing.T) {
	if os.Getenv("GRPO_SMOKE") == "" {
		t.Skip("more than a minute of training; make smoke runs it")
	}
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not on PATH, and programs are Python")
	}
	dir := t.TempDir()
	out, errs, code := shell(t, "", "--preset", "tiny", "run_dir="+dir, "--json", "eval_every=200")
	require.Zero(t, code, errs)
	var evaluations []grpo.Evaluation
	steps := 0
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		var l struct {
			Evaluation *grpo.Evaluation
			Step       int
			OnPolicy   float64 `json:"max_logp_diff_on_policy"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &l), line)
		if l.Evaluation != nil {
			evaluations = append(evaluations, *l.Evaluation)
		} else if l.Step > 0 {
			steps++
			require.Zero(t, l.OnPolicy, "step %d", l.Step)
		}
	}
	require.Equal(t, 200, steps)
	require.Len(t, evaluations, 2)
	first, last := evaluations[0], evaluations[1]
	t.Logf("held-out pass@1: %.3f %v, then %.3f %v", first.Greedy, first.GreedyCI, last.Greedy, last.GreedyCI)
	require.Greater(t, last.Greedy, first.Greedy+0.4)
	t.Logf("sampled: %.3f, then %.3f", first.PassAt1, last.PassAt1)
	require.Greater(t, last.PassAt1, first.PassAt1+0.35)
	for _, name := range []string{"config.json", "manifest.json", "metrics.jsonl", "train_log.jsonl", "rollouts.jsonl",
		"checkpoints/step_000200/state.json"} {
		require.FileExists(t, filepath.Join(dir, name))
	}
}

func TestTheResolvedSettingsArePrintedAndMistakesNamed(t *testing.T) {
	out, errs, code := shell(t, "", "--print-config", "learning_rate=2e-3")
	require.Zero(t, code, errs)
	require.Contains(t, out, "learning_rate: 0.002\n")
	out, errs, code = shell(t, "", "lerning_rate=1")
	requireBadInput(t, out, errs, code, "lerning_rate", "learning_rate")
	out, errs, code = shell(t, "", "model=/nowhere/at/all")
	requireBadInput(t, out, errs, code, "/nowhere/at/all")
	out, errs, code = shell(t, "", "--preset", "huge")
	requireBadInput(t, out, errs, code, "huge", "tiny")
}
