package grpo

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/optim"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/sampler"
)

// recovered makes a step in which something panics.
func recovered(t *testing.T, tr *Trainer, o StepOptions) {
	t.Helper()
	require.Panics(t, func() { _, _ = tr.Step(t.Context(), nil, o) })
}

// If a function of the program panics and the program recovers, the step has no effect.
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
		require.Equal(t, cursor, tr.Pool().Cursor(), "the pool's cursor is as before")
		panics = false
		got, err := tr.Step(t.Context(), nil, StepOptions{})
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// A policy between two updates belongs to no step, so it is not used further.
func TestAPolicyIsNotGoneOnWithAfterAPanic(t *testing.T) {
	policies := map[string]bool{}
	var tr *Trainer
	own := func(s *model.LossSequence) float64 {
		hash, err := tr.Policy().Hash()
		require.NoError(t, err)
		if policies[hash] = true; len(policies) == 2 {
			panic("at the second update")
		}
		return ownLoss(s)
	}
	tr, _ = setup{dir: t.TempDir(), words: []string{"eval_every=-1"}, options: []Option{WithLoss(own)}}.open(t)
	recovered(t, tr, StepOptions{Iterations: 2})
	_, err := tr.Step(t.Context(), nil, StepOptions{})
	require.ErrorContains(t, err, "resume from the last checkpoint: step 1: a function of the program's own panicked")
	_, err = tr.Save(t.Context())
	require.ErrorContains(t, err, "not finished")
}

// Fields that a program sets in a Config are checked like settings.
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

// So are a program's changes to the settings of a run.
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

// A wrapper that forgets to return its grader is found when the trainer is opened, not by a goroutine that scores.
func TestAWrapperThatReturnsNothing(t *testing.T) {
	nothing := func(reward.Grader) reward.Grader { return nil }
	cfg, err := configs.Load(configs.Source{Preset: "tiny"})
	require.NoError(t, err)
	own := reward.GraderFunc(func(context.Context, reward.Completion) (reward.Score, error) { return reward.Score{}, nil })
	_, err = Open(t.Context(), cfg, backend(t, 1), nil, Unrecorded(), WithGrader(own), WrapGrader(nothing))
	require.ErrorContains(t, err, "the program's own wrapper (WrapGrader) returned nil, expected a grader")
	var j *reward.Judge // of a reward.Open that failed
	require.PanicsWithValue(t, "reward.Finite: the argument g is nil, expected a grader, such as reward.Open makes",
		func() { _, _ = Open(t.Context(), cfg, backend(t, 1), nil, Unrecorded(), WithGrader(j)) })
}

// Nil arguments are refused by name.
func TestArgumentsThatAreNil(t *testing.T) {
	var nothing context.Context
	cfg, err := configs.Load(configs.Source{Preset: "tiny"})
	require.NoError(t, err)
	b, ctx, dir := backend(t, 1), t.Context(), t.TempDir()
	tr, _ := setup{dir: dir, words: []string{"max_steps=1", "eval_every=-1"}}.open(t)
	run(t, tr)
	saved, err := OpenSaved(dir, -1, nil)
	require.NoError(t, err)
	p := tr.Policy()
	adam := func() *optim.Adam {
		params, grads, _ := p.Slabs()
		a, err := optim.NewAdam(tr.backend, params, grads, optim.Defaults(), nil)
		require.NoError(t, err)
		return a
	}
	engine, err := sampler.New(p, sampler.Options{MaxLength: 8, MaxSequences: 1})
	require.NoError(t, err)
	live, err := sampler.NewLive(p, sampler.Options{MaxLength: 8, MaxSequences: 1})
	require.NoError(t, err)
	decoder, err := p.NewDecoder(engine.Plan.Decoder())
	require.NoError(t, err)
	for what, call := range map[string]func(){
		"grpo.Open ctx":               func() { _, _ = Open(nothing, cfg, b, nil) },
		"grpo.Open cfg":               func() { _, _ = Open(ctx, nil, b, nil) },
		"grpo.Open b":                 func() { _, _ = Open(ctx, cfg, nil, nil) },
		"grpo.OpenEvaluator cfg":      func() { _, _ = OpenEvaluator(ctx, nil, b, nil) },
		"grpo.OpenRun b":              func() { _, _ = OpenRun(ctx, dir, nil, nil, nil) },
		"grpo.OpenRemote ctx":         func() { _, _ = OpenRemote(nothing, RemoteOptions{}) },
		"grpo.ModelDir ctx":           func() { _, _ = ModelDir(nothing, "tiny") },
		"grpo.Replay b":               func() { _, _ = Replay(ctx, dir, 1, nil, nil) },
		"grpo.Saved.Evaluator b":      func() { _, _ = saved.Evaluator(ctx, nil, nil) },
		"grpo.Saved.Language ctx":     func() { _, _ = saved.Language(nothing) },
		"grpo.Trainer ctx":            func() { _, _ = tr.Step(nothing, nil, StepOptions{}) },
		"grpo.Evaluator ctx":          func() { _, _ = tr.Evaluate(nothing) },
		"lora.New l":                  func() { lora.New(nil) },
		"lora.Merge a":                func() { _ = lora.Merge(dir, nil, dir) },
		"lora.MergeContext ctx":       func() { _ = lora.MergeContext(nothing, dir, nil, dir) },
		"lora.CheckMerge a":           func() { _, _ = lora.CheckMerge(dir, nil, dir) },
		"optim.Adam.Park s":           func() { _ = adam().Park(nil) },
		"optim.Adam.Resume s":         func() { _ = adam().Resume(nil) },
		"sampler.New p":               func() { _, _ = sampler.New(nil, sampler.Options{}) },
		"sampler.NewPlan p":           func() { _, _ = sampler.NewPlan(nil, sampler.Options{}) },
		"sampler.Engine.Sample ctx":   func() { _, _ = engine.Sample(nothing, nil, sampler.Events{}) },
		"sampler.Live.Run ctx":        func() { _ = live.Run(nothing) },
		"model.Open b":                func() { _, _ = model.Open(nil, goldenModel(t), false, model.Options{}) },
		"model.Policy.Score ctx":      func() { _, _ = p.Score(nothing, nil, 1) },
		"model.Policy.Accumulate ctx": func() { _, _ = p.Accumulate(nothing, nil, model.Objective{}) },
		"model.Policy.Attach a":       func() { _ = p.Attach(nil) },
		"model.Decoder.Serve a":       func() { _, _ = decoder.Serve(nil) },
	} {
		function, argument, _ := strings.Cut(what, " ")
		func() {
			defer func() {
				require.Contains(t, recover(), fmt.Sprintf("%s: the argument %s is nil, expected ", function, argument), what)
			}()
			call()
		}()
	}
}
