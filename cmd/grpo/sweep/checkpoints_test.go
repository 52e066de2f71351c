package sweep

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data/dataset"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/provenance"
)

// Of checkpoints that tie, none is called best.
func TestTheBestCheckpoint(t *testing.T) {
	for says, greedy := range map[string][]float64{
		"step 6 is best": {0.25, 0.75, 0.5},
		"step 3 is best": {0},
		"all 3 checkpoints do the same, and the earliest, step 3, is marked":      {0.25, 0.25, 0.25},
		"2 checkpoints do best and the same, and the earliest, step 6, is marked": {0.25, 0.5, 0.5, 0},
	} {
		var all []result
		for i, g := range greedy {
			all = append(all, result{step: 3 * (i + 1), Evaluation: grpo.Evaluation{Greedy: g}})
		}
		at, told := best(all)
		require.Equal(t, says, told)
		require.Contains(t, says, "step "+map[int]string{0: "3", 1: "6"}[at])
	}
	sampled := func(share float64) result {
		return result{Evaluation: grpo.Evaluation{Sampled: &grpo.Sampled{PassAt1: share}}}
	}
	at, _ := best([]result{sampled(0.1), sampled(0.2)})
	require.Equal(t, 1, at)
}

// With --problems 0 all problems are asked; by default as many as the run asks.
func TestHowManyProblemsAreAsked(t *testing.T) {
	for problems, want := range map[int]int{-1: 5, 0: 0, 3: 3} {
		cfg, err := configs.Load(configs.Source{Preset: configs.DefaultPreset, Overrides: []string{"eval_problems=5"}})
		require.NoError(t, err)
		require.NoError(t, (&evalFlags{problems: problems, samples: -1}).change(cfg))
		require.Equal(t, want, cfg.EvalProblems)
	}
}

// Checkpoints of a run that changed its held-out problems are evaluated on the same ones, or not at all.
func TestCheckpointsAreAskedTheSameProblems(t *testing.T) {
	dir, cfg := t.TempDir(), configs.Defaults()
	cfg.TestData = "one"
	for name, v := range map[string]any{provenance.ConfigFile: cfg, provenance.ManifestFile: provenance.Manifest{Starts: []provenance.Start{
		{}, {After: 2, Settings: map[string]json.RawMessage{"test_data": json.RawMessage(`"two"`)}}}}} {
		text, err := json.Marshal(v)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o644))
	}
	require.NoError(t, (&evalFlags{}).alike(dir, []int{1, 2}))
	require.ErrorContains(t, (&evalFlags{}).alike(dir, []int{1, 2, 3}), "step 3 was made with other held-out problems (two) than step 1 (one)")
	require.NoError(t, (&evalFlags{data: "tasks.jsonl"}).alike(dir, []int{1, 3}))
}

// A run's path to its problems is relative to where the run began; from elsewhere, the error says what to type.
func TestProblemsThatAreNotThere(t *testing.T) {
	none := badinput.Errorf("test_data some.jsonl: %w in /here", dataset.ErrAbsent)
	require.EqualError(t, (&evalFlags{}).named(none),
		"test_data some.jsonl: no such file in /here; start in the directory where the run began, or type --data SOURCE")
	require.EqualError(t, (&evalFlags{data: "some.jsonl"}).named(none), "--data some.jsonl: no such file in /here")
	require.True(t, badinput.Is((&evalFlags{}).named(none)) && badinput.Is((&evalFlags{data: "some.jsonl"}).named(none)))
	require.ErrorIs(t, (&evalFlags{}).named(os.ErrClosed), os.ErrClosed)
}

// However many rungs are requested, each is at a step of its own.
func TestRungsWantSteps(t *testing.T) {
	base, err := configs.Load(configs.Source{Preset: configs.DefaultPreset, Overrides: []string{"max_steps=4"}})
	require.NoError(t, err)
	for rungs, refused := range map[int]bool{3: false, 4: true, 64: true, 65: true, 2_000_000_000: true} {
		_, err := (&flags{rungs: rungs}).ladder(base, nil)
		require.Equal(t, refused, err != nil, rungs)
	}
}
