package recipe

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/objective"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/model"
)

// reference returns the reference's log-probabilities of a batch, and counts its calls.
type reference struct {
	b     *batch
	calls int
}

// promptLength is the length of all prompts of the tests.
const promptLength = 2

func (r *reference) ScoreBase(_ context.Context, datums []model.Datum, _ float32) ([][]float32, error) {
	r.calls++
	all := make([][]float32, len(datums))
	for k, d := range datums {
		q, i := int(d.Tokens[0]), int(d.Tokens[1]) // the prompt encodes q and i
		all[k] = append(make([]float32, promptLength-1), narrow(r.b.ref[q][i])...)
	}
	return all, nil
}

func narrow(numbers []float64) []float32 {
	all := make([]float32, len(numbers))
	for i, x := range numbers {
		all[i] = float32(x)
	}
	return all
}

func (b *batch) datum(q, i int) model.Datum {
	tokens := append([]int32{int32(q), int32(i)}, make([]int32, len(b.old[q][i]))...)
	return model.NewDatum(tokens, promptLength, append(make([]float32, promptLength-1), narrow(b.old[q][i])...), 0)
}

func (b *batch) groups() []objective.Group {
	groups := make([]objective.Group, len(b.R))
	for q := range b.R {
		for i, reward := range b.R[q] {
			groups[q].Samples = append(groups[q].Samples, objective.Sample{Reward: reward, Tokens: len(b.old[q][i])})
		}
	}
	return groups
}

// recipe is the recipe of a preset with further settings.
func recipe(t *testing.T, preset string, words ...string) *Recipe {
	t.Helper()
	cfg, err := configs.Load(configs.Source{Preset: preset, Overrides: append([]string{"max_tokens=6"}, words...)})
	require.NoError(t, err)
	r, err := New(cfg, Overrides{})
	require.NoError(t, err)
	return r
}

// learn makes a step of a preset, and returns the loss and its gradient.
func (b *batch) learn(t *testing.T, preset string) (loss float64, gradient numbers) {
	t.Helper()
	r, ref := recipe(t, preset), &reference{b: b}
	a, err := r.Advantages(t.Context(), ref, b.groups(), b.datum)
	require.NoError(t, err)
	var datums []model.Datum
	for q := range b.R {
		for i := range b.R[q] {
			datums = append(datums, b.datum(q, i))
		}
	}
	require.NoError(t, r.BeginStep(t.Context(), ref, datums))
	if r.Compare.KL > 0 || r.Loss.KL > 0 {
		require.Equal(t, 1, ref.calls, "%s: one pass through the reference", preset)
	} else {
		require.Zero(t, ref.calls, preset)
	}
	r.BeginUpdate()
	gradient = b.logp.clone()
	for k, d := range datums {
		q, i := int(d.Tokens[0]), int(d.Tokens[1])
		s := &model.LossSequence{Index: k, LogP: narrow(b.logp[q][i]), Old: narrow(b.old[q][i])}
		s.Entropy, s.Grad = make([]float32, len(s.LogP)), make([]float32, len(s.LogP))
		for t := range s.LogP {
			one := a.Samples[q][i]
			if a.Tokens != nil {
				one = a.Tokens[q][i][t]
			}
			s.Advantage = append(s.Advantage, float32(one))
			s.Weight = append(s.Weight, r.Objective.Reduction.Weight(len(s.LogP), len(datums), int(b.logp.tokens())))
		}
		if r.Objective.Custom != nil {
			loss += r.Objective.Custom(s)
		} else {
			loss += kernel(t, r, s)
		}
		for t, g := range s.Grad {
			gradient[q][i][t] = float64(g)
		}
	}
	return loss, gradient
}

// kernel computes the loss as a backend does, and compares the part on the host with it.
func kernel(t *testing.T, r *Recipe, s *model.LossSequence) (loss float64) {
	t.Helper()
	b, err := cpu.New(cpu.Options{Threads: 1})
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	n := len(s.LogP)
	up := func(x []float32) kernels.Buffer {
		buffer, err := b.Alloc(kernels.F32, n)
		require.NoError(t, err)
		b.Upload(buffer, x)
		return buffer
	}
	grad := up(s.Grad)
	stats, err := b.Alloc(kernels.F64, kernels.NumStats)
	require.NoError(t, err)
	b.Loss(grad, stats, kernels.LossIn{LogP: up(s.LogP), Entropy: up(s.Entropy), OldLogP: up(s.Old), Advantage: up(s.Advantage),
		Weight: up(s.Weight)}, r.Objective.Loss, n)
	sums := make([]float64, kernels.NumStats)
	require.NoError(t, b.Download(s.Grad, grad))
	require.NoError(t, b.Download(sums, stats))

	host := *s
	host.Grad = make([]float32, n)
	require.InDelta(t, sums[kernels.StatLoss], r.loss(&host), 1e-6)
	require.InDeltaSlice(t, s.Grad, host.Grad, 1e-6)
	return sums[kernels.StatLoss]
}

// Only terms that no kernel supports are computed on the host.
func TestWhoComputesTheLoss(t *testing.T) {
	for words, host := range map[string]bool{
		"loss=ppo": false, "loss=importance_sampling": false, "loss=cispo": false, "loss=cross_entropy": false, "advantage=batch": false,
		"loss=gspo": true, "loss=gspo_token": true, "tis=token": true, "tis=sequence": true, "kl_coef=0.1": true, "entropy_coef=0.1": true,
	} {
		require.Equal(t, host, recipe(t, "defaults", words).Objective.Custom != nil, words)
	}
	require.NotNil(t, recipe(t, "dapo", "clip_dual=3").Objective.Custom)
	require.Nil(t, recipe(t, "defaults", "kl_coef=0.1", "kl_in=reward").Objective.Custom)

	// A custom loss replaces all of it.
	own := func(*model.LossSequence) float64 { return 7 }
	cfg, err := configs.Load(configs.Source{Preset: "grpo"})
	require.NoError(t, err)
	r, err := New(cfg, Overrides{Loss: own})
	require.NoError(t, err)
	require.InDelta(t, 7, r.Objective.Custom(nil), 0)
	require.NoError(t, r.BeginStep(t.Context(), nil, nil), "the reference is not used")
}

// The importance corrections of a step are those of its first update, also in the second, and for a single datum.
func TestCorrectionsAreOfTheFirstUpdate(t *testing.T) {
	r := recipe(t, "defaults", "tis=token", "tis_cap=1.5")
	require.NoError(t, r.BeginStep(t.Context(), nil, make([]model.Datum, 2)))
	show := func(logp float32) float32 {
		r.BeginUpdate()
		s := &model.LossSequence{Index: 1, LogP: []float32{logp}, Old: []float32{-2}, Advantage: []float32{1}, Weight: []float32{1},
			Entropy: []float32{1}, Grad: []float32{0}}
		if r.first == 1 {
			s.Index = 0
		}
		r.Objective.Custom(s)
		return s.Grad[0]
	}
	require.InDelta(t, -1.5, show(-1), 1e-6, "the cap, and a ratio of 1")
	require.InDelta(t, -1.5*1.6487, show(-0.5), 1e-4)
	r.OnlyDatum(1)
	require.InDelta(t, -1.5*1.6487, show(-0.5), 1e-4)
	var stats model.Stats
	e := r.Effects(&stats)
	require.Equal(t, []float64{1.5, 1}, []float64{*e.TISMean, *e.TISShare})
	require.Nil(t, e.KLRef)
}

// A single reward that is far beyond all others of the step is blamed, and not the completions compared with it.
func TestWhoIsToBlame(t *testing.T) {
	of := func(others []string, groups ...[]float64) string {
		cfg, err := configs.Load(configs.Source{Overrides: []string{"advantage=mean"}})
		require.NoError(t, err)
		r, err := New(cfg, Overrides{})
		require.NoError(t, err)
		var all []objective.Group
		for i, rewards := range groups {
			g := objective.Group{Name: string(rune('p' + i))}
			for _, x := range rewards {
				g.Samples = append(g.Samples, objective.Sample{Reward: x, Tokens: 1})
			}
			all = append(all, g)
		}
		_, err = r.Advantages(t.Context(), nil, all, nil)
		require.NoError(t, err)
		return strings.Join(r.Blame(others), ", ")
	}
	one := []string{"sample 0 of problem p"}
	require.Equal(t, "completion 2 of the 3 that count of problem q, which earned -1e+30", of(one, []float64{1, 0}, []float64{0, -1e30, 1}))
	require.Equal(t, one[0], of(one, []float64{1e30, 0}, []float64{0, -1e30, 1}), "of two huge rewards neither is blamed alone")
	require.Equal(t, one[0], of(one, []float64{1, 0}), "without a huge reward the given samples are blamed")
	require.Equal(t, "no completion by itself, but all of them together", of(nil, []float64{1, 0}))
	crowd := strings.Split("abcdefghij", "")
	require.Equal(t, "a, b, c, d, e, f, g, h, and 2 more", of(crowd, []float64{1, 0}))
	require.Equal(t, "a, b, c, d, e, f, g, h", of(crowd[:8], []float64{1, 0}))
}

// An advantage too large for a gradient is reported with the problem and what to do; equal rewards of any size, and normalised ones, are
// fine.
func TestAdvantagesThatAreTooLargeAreTold(t *testing.T) {
	of := func(rewards []float64, words ...string) (said []string) {
		cfg, err := configs.Load(configs.Source{Overrides: words})
		require.NoError(t, err)
		r, err := New(cfg, Overrides{})
		require.NoError(t, err)
		r.Warn = func(what string) { said = append(said, what) }
		g := objective.Group{Name: "p"}
		for _, x := range rewards {
			g.Samples = append(g.Samples, objective.Sample{Reward: x, Tokens: 1})
		}
		_, err = r.Advantages(t.Context(), nil, []objective.Group{g, g}, nil)
		require.NoError(t, err)
		return said
	}
	said := of([]float64{0, 1e30}, "advantage=mean")
	require.Len(t, said, 1)
	require.Contains(t, said[0], "problem p: completion 2 of the 2 that count earned 1e+30")
	require.Contains(t, said[0], "type reward_clip=10")
	require.Empty(t, of([]float64{1e30, 1e30}, "advantage=mean"))
	require.Empty(t, of([]float64{0, 1e30}, "advantage=std"))
	require.Empty(t, of([]float64{0, 1e30}, "advantage=mean", "reward_clip=10"))
	require.Empty(t, of([]float64{0, 1e17}, "advantage=mean"))
}

// Settings changed during a run have the effect that they have from the start: overlong_buffer is its own value, or a fifth of the
// longest completion.
func TestAdjust(t *testing.T) {
	r := recipe(t, "defaults")
	r.Compare.Longest = 50
	for _, x := range []struct {
		penalty         float64
		buffer, inForce int
	}{{0, 0, 0}, {0.5, 0, 10}, {0.5, 4, 4}, {0, 4, 4}} {
		r.Adjust(0.7, x.penalty, x.buffer)
		require.Equal(t, objective.Shaping{Longest: 50, Buffer: x.inForce, Penalty: x.penalty}, r.Compare.Shaping)
	}
	require.InDelta(t, 0.7, r.Objective.Temperature, 1e-6)
	r.Compare.Longest = 3
	r.Adjust(1, 0.5, 0)
	require.Equal(t, 1, r.Compare.Buffer, "a fifth of 3 is 0, and 0 would disable the penalty")
}

// Each enabled term reports its effect on the step; a disabled one reports nothing, and not 0.
func TestEffects(t *testing.T) {
	of := func(words ...string) (e Effects, clipped float64) {
		r := recipe(t, "defaults", append([]string{"advantage=mean"}, words...)...)
		groups := []objective.Group{{Samples: []objective.Sample{{Reward: 5, Tokens: 6}, {Reward: 0, Tokens: 1}}}}
		_, err := r.Advantages(t.Context(), nil, groups, nil)
		require.NoError(t, err)
		r.RecordLeftOut(3)
		require.NoError(t, r.BeginStep(t.Context(), nil, make([]model.Datum, 1)))
		if r.Objective.Custom != nil {
			for range 2 { // the second update is reported
				r.BeginUpdate()
				r.Objective.Custom(&model.LossSequence{LogP: []float32{-1, -1, -1, -1}, Old: []float32{-3, 0, -1, -1},
					Advantage: []float32{1, -1, 1, -1}, Weight: []float32{1, 1, 1, 1}, Entropy: make([]float32, 4), Grad: make([]float32, 4)})
			}
		}
		stats := model.Stats{Clipped: 7}
		e = r.Effects(&stats)
		return e, stats.Clipped
	}
	number := func(x float64) *float64 { return &x }
	three := 3
	e, clipped := of()
	require.Equal(t, Effects{}, e)
	require.InDelta(t, 7, clipped, 0, "Clipped is the backend's count")
	e, _ = of("reward_clip=2", "advantage_clip=0.4", "overlong_penalty=1", "overlong_buffer=2", "positive_only=true")
	require.Equal(t, Effects{RewardsClipped: number(0.5), AdvantagesClipped: number(1), Overlong: number(0.5), NotLearnt: &three}, e)
	e, clipped = of("loss=ppo", "clip_low=0.8", "clip_high=1.2", "clip_dual=3")
	require.Equal(t, Effects{ClipLow: number(0.25), ClipHigh: number(0.25), ClipDual: number(0)}, e)
	require.InDelta(t, 0.5, clipped, 0)
}
