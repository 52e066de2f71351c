package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/sweep"
	"github.com/seed-7879b91d/grpo/internal/testvariants"
)

// A sweep ends with the same results however often its processes are killed. GRPO_SWEEPS=1 makes nine runs in real sandboxes, and kills
// more often.
func TestSweepsEndAlike(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes are looked for in /proc")
	}
	words := append([]string{"sweep", "--preset", "tiny_smoke", "--dir", "sweep"},
		settingsOnly(newFakeSandbox(t).words("max_steps=1", "eval_every=1"))...)
	kills := []string{"learning_rate=1e-3,seed=1", "learning_rate=2e-3,seed=0"}
	words = append(words, "learning_rate=1e-3,2e-3", "seed=0..1")
	if race.Enabled || !testvariants.Exhaustive {
		words, kills = words[:len(words)-1], []string{"learning_rate=1e-3"}
	}
	if os.Getenv("GRPO_SWEEPS") != "" {
		needsSandbox(t)
		words = []string{"sweep", "--preset", "tiny_smoke", "--dir", "sweep", "learning_rate=1e-3,2e-3,4e-3", "seed=0..2", "max_steps=3",
			"save_every=1", "eval_every=1", "eval_problems=16", "prompts_per_step=4", "eval_samples=2", "eval_k=2"}
		kills = []string{"learning_rate=1e-3,seed=1", "learning_rate=2e-3,seed=2", "learning_rate=4e-3,seed=2"}
	}
	exe, err := os.Executable()
	require.NoError(t, err)
	begin := func(folder string, words ...string) *process {
		return startCommand(t, folder, exec.Command(exe, words...))
	}
	whole := t.TempDir()
	code, says := begin(whole, words...).end(t)
	require.Zero(t, code, says)
	want, err := os.ReadFile(filepath.Join(whole, "sweep", sweep.ResultsFile))
	require.NoError(t, err)

	folder := t.TempDir()
	for i, name := range kills {
		again := words
		if i > 0 {
			again = []string{"sweep", "--dir", "sweep"}
		}
		p := begin(folder, again...)
		require.True(t, p.waitFor(func() bool {
			text, err := os.ReadFile(filepath.Join(folder, "sweep", "runs", name, "metrics.jsonl"))
			return err == nil && len(text) > 0
		}), "the sweep ended before its run had a line of metrics")
		out, errs, code := shell(t, "", "sweep", "--dir", filepath.Join(folder, "sweep"))
		requireBadInput(t, out, errs, code, "makes the runs of "+filepath.Join(folder, "sweep"), "wait until it is done")
		require.Positive(t, p.kill(t), "the run's process must end with its parent")
	}
	code, says = begin(folder, "sweep", "--dir", "sweep").end(t)
	require.Zero(t, code, says)
	got, err := os.ReadFile(filepath.Join(folder, "sweep", sweep.ResultsFile))
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
	t.Log(string(got))
	checkpointsOf(t, filepath.Join(folder, "sweep", "runs", kills[0]))
}

// settingsOnly leaves flags out.
func settingsOnly(words []string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool {
		return !strings.Contains(w, "=") || strings.HasPrefix(w, "seed=")
	})
}

// checkpointsOf requires that every checkpoint of a run is evaluated as the run did it, and that one is marked.
func checkpointsOf(t *testing.T, run string) {
	out, errs, code := shell(t, "", "sweep-checkpoints", run, "--format", "json")
	require.Zero(t, code, errs)
	var rows []struct {
		Step   int
		Greedy float64 `json:"pass@1_greedy"`
		Best   bool
	}
	require.NoError(t, json.Unmarshal([]byte(out), &rows))
	saved, err := filepath.Glob(filepath.Join(run, "checkpoints", "step_*"))
	require.NoError(t, err)
	require.Len(t, rows, len(saved))
	best := 0
	metrics, err := os.ReadFile(filepath.Join(run, "metrics.jsonl"))
	require.NoError(t, err)
	for _, row := range rows {
		if row.Best {
			best++
		}
		for line := range strings.Lines(string(metrics)) {
			var e struct {
				Kind   string
				Step   int
				Greedy float64 `json:"pass@1_greedy"`
			}
			require.NoError(t, json.Unmarshal([]byte(line), &e))
			if e.Kind == "evaluation" && e.Step == row.Step {
				require.Equal(t, e.Greedy, row.Greedy)
			}
		}
	}
	require.Equal(t, 1, best)
	out, errs, code = shell(t, "", "sweep-checkpoints", filepath.Join(run, "checkpoints"))
	requireBadInput(t, out, errs, code, "has no checkpoints")
}

// A sweep, too, continues if the reader of its output goes away, and reports that at its end.
func TestASweepOutlivesItsReader(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, reader.Close())
	folder := t.TempDir()
	words := append([]string{"sweep", "--preset", "tiny_smoke", "--dir", "sweep"},
		settingsOnly(newFakeSandbox(t).words("max_steps=1", "eval_every=-1"))...)
	cmd := exec.Command(exe, append(words, "seed=0..1")...)
	cmd.Stdout = writer
	p := startCommand(t, folder, cmd)
	require.NoError(t, writer.Close())
	code, says := p.end(t)
	require.Equal(t, exitFailed, code, says)
	require.Contains(t, says, "broken pipe")
	require.FileExists(t, filepath.Join(folder, "sweep", sweep.ResultsFile))
}
