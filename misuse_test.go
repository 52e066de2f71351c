package grpo

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/model"
)

// recovered takes a step in which something panics.
func recovered(t *testing.T, tr *Trainer, o StepOptions) {
	t.Helper()
	require.Panics(t, func() { _, _ = tr.Step(t.Context(), nil, o) })
}

// Where a function of the program's own panics and the program recovers, the step did not happen.
func TestAStepThatPanicsIsUndone(t *testing.T) {
	none := []string{"eval_every=-1"}
	tr, _ := setup{words: none}.open(t)
	want, err := tr.Step(t.Context(), nil, StepOptions{})
	require.NoError(t, err)

	panics := true
	fall := func() {
		if panics {
			panic("of the program's own")
		}
	}
	advantage := func(rewards []float64) []float64 { fall(); return MeanAdvantages(rewards) }
	groups := func(int, []Group) error { fall(); return nil }
	for _, own := range []Option{WithAdvantage(advantage), WithGroups(groups)} {
		panics = true
		tr, _ = setup{words: none, options: []Option{own}}.open(t)
		cursor := tr.Pool().Cursor()
		recovered(t, tr, StepOptions{})
		require.Equal(t, cursor, tr.Pool().Cursor(), "the problems are not lost")
		panics = false
		got, err := tr.Step(t.Context(), nil, StepOptions{})
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// A policy that was left between two updates is of no step.
func TestAPolicyIsNotGoneOnWithAfterAPanic(t *testing.T) {
	policies := map[string]bool{}
	var tr *Trainer
	own := func(s *model.LossSequence) float64 {
		hash, err := tr.Policy().Hash()
		require.NoError(t, err)
		if policies[hash] = true; len(policies) == 2 {
			panic("at the second update")
		}
		return push(s)
	}
	tr, _ = setup{dir: t.TempDir(), words: []string{"eval_every=-1"}, options: []Option{WithLoss(own)}}.open(t)
	recovered(t, tr, StepOptions{Iterations: 2})
	_, err := tr.Step(t.Context(), nil, StepOptions{})
	require.ErrorContains(t, err, "go on from the last checkpoint: step 1: a function of the program's own panicked")
	_, err = tr.Save(t.Context())
	require.ErrorContains(t, err, "half done")
}

// Fields that a program sets itself are held to what words are.
func TestFieldsOfAConfigAreChecked(t *testing.T) {
	for want, change := range map[string]func(*configs.Config){
		`advantage: found "median"`:            func(c *configs.Config) { c.Advantage = "median" },
		`train: found "lor"`:                   func(c *configs.Config) { c.Train = "lor" },
		"prompts_per_step: found -1":           func(c *configs.Config) { c.PromptsPerStep = -1 },
		"num_iterations: found 0":              func(c *configs.Config) { c.NumIterations = 0 },
		"make one by configs.Load":             func(c *configs.Config) { *c = configs.Config{Model: "tiny"} },
		"eval_temperature: found 0":            func(c *configs.Config) { c.EvalTemperature = 0 },
		"completions_per_prompt: found 0, exp": func(c *configs.Config) { c.CompletionsPerPrompt = 0 },
	} {
		cfg, err := configs.Load(configs.Source{Preset: "tiny"})
		require.NoError(t, err)
		change(cfg)
		_, err = Open(t.Context(), cfg, backend(t, 0), nil, Unrecorded())
		require.ErrorContains(t, err, want)
		_, err = OpenEvaluator(t.Context(), cfg, backend(t, 0), nil)
		require.ErrorContains(t, err, want)
	}
}

// So are those that a program changes of a run's settings.
func TestChangesOfARunsSettingsAreChecked(t *testing.T) {
	dir := t.TempDir()
	tr, _ := setup{dir: dir, words: []string{"max_steps=1", "eval_every=-1"}}.open(t)
	run(t, tr)
	_, err := OpenRun(t.Context(), dir, backend(t, 0), nil, func(c *configs.Config) error { c.EvalSamples = -3; return nil })
	require.ErrorContains(t, err, "eval_samples: found -3, expected 0 or more")
}

func TestOptionsOfNothingChangeNothing(t *testing.T) {
	tr, _ := setup{words: []string{"eval_every=-1"},
		options: []Option{nil, WithTurn(nil), Beside(nil, nil), WithGroups(nil), WrapGrader(nil), WithAdvantage(nil), WithLoss(nil)}}.open(t)
	_, err := tr.Step(t.Context(), nil, StepOptions{})
	require.NoError(t, err)
}
