package learning

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/internal/recipe"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/model"
)

// learner trains all weights of a small model; the datums were sampled from it.
func learner(t *testing.T, b kernels.Backend, words ...string) (*Learner, []model.Datum) {
	t.Helper()
	cfg, err := configs.Load(configs.Source{Preset: "defaults", Overrides: append([]string{"train=full"}, words...)})
	require.NoError(t, err)
	golden := filepath.Join("..", "..", "model", "testdata", "golden", "qwen3-tied")
	p, err := model.Open(b, golden, true, model.Options{MaxRows: 16})
	require.NoError(t, err)
	l, err := Open(cfg, b, p, recipe.Overrides{})
	require.NoError(t, err)
	var datums []model.Datum
	for i := range int32(6) {
		tokens := []int32{5 + i, 9, 11, 3, 2, 40, 7 + i, 80}
		scores, err := p.Score(t.Context(), [][]int32{tokens}, l.Recipe.Objective.Temperature)
		require.NoError(t, err)
		datums = append(datums, model.NewDatum(tokens, 3, scores[0], float32(i)-2.5))
	}
	return l, datums
}

// If the trainer's log-probabilities differ from the sampler's, a deterministic run ends before it trains on them, unless the completions
// are of an older policy.
func TestASamplerThatDisagreesIsNoticed(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{Threads: 1})
	defer b.Close()
	for _, c := range []struct {
		words        string
		stale, wrong bool
		says         string
	}{
		{"deterministic=true", false, false, ""},
		{"deterministic=true", false, true, "sampler and trainer disagree by 0.5"},
		{"deterministic=true", true, true, ""},
		{"deterministic=false", false, true, ""},
	} {
		l, datums := learner(t, b, c.words)
		want := 0.0
		if c.wrong {
			want = 0.5
			datums[4].OldLogProbs[5] += 0.5
		}
		u, err := l.Update(t.Context(), datums, 1, 1e-3, c.stale)
		require.InDelta(t, want, u.OnPolicy, 1e-6)
		require.Equal(t, c.says == "", u.Updated)
		if c.says != "" {
			require.ErrorContains(t, err, c.says)
			require.Zero(t, l.Adam.Steps())
			continue
		}
		require.NoError(t, err)
		require.Equal(t, 1, l.Adam.Steps())
	}
}

// Drift is measured on the tokens of a step: the mean of log q − log p, and half of its mean square, on every third sequence if all of
// them would fill three batches.
func TestDriftIsOfTheTokensOfABatch(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{Threads: 1})
	defer b.Close()
	l, datums := learner(t, b, "temperature=0.5")
	_, err := l.Update(t.Context(), datums, 1, 0.01, false)
	require.NoError(t, err)
	for rows, every := range map[int]int{64: 1, 6 * 7: 1, 3 * 7: 2, 2 * 7: 3, 1: 6} {
		l.Policy.MaxRows = rows
		got, err := l.Drift(t.Context(), datums)
		require.NoError(t, err)
		var want Drift
		n := 0.0
		for i := 0; i < len(datums); i += every {
			d := datums[i]
			tokens := append(slices.Clone(d.Tokens), d.Targets[len(d.Targets)-1])
			scores, err := l.Policy.Score(t.Context(), [][]int32{tokens}, l.Recipe.Objective.Temperature)
			require.NoError(t, err)
			for k, drawn := range d.Mask {
				if drawn {
					x := float64(d.OldLogProbs[k]) - float64(scores[0][k])
					want.KL1, want.KL2, n = want.KL1+x, want.KL2+x*x/2, n+1
				}
			}
		}
		require.InEpsilon(t, want.KL1/n, got.KL1, 1e-5, "%d rows", rows)
		require.InEpsilon(t, want.KL2/n, got.KL2, 1e-5, "%d rows", rows)
	}
	clear(datums[0].Mask)
	got, err := l.Drift(t.Context(), datums[:1])
	require.NoError(t, err)
	require.Zero(t, got, "nothing was drawn")
}

// An update is Adam's, with all the run's settings of the optimizer.
func TestTheOptimizerHasTheSettingsOfTheRun(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{Threads: 1})
	defer b.Close()
	l, datums := learner(t, b, "adam_beta1=0.7", "adam_beta2=0.8", "adam_eps=0.001", "weight_decay=0.3", "grad_clip_norm=0.01",
		"learning_rate=0.02", "schedule=linear", "scheduler_total_steps=4", "warmup_steps=0")
	require.Equal(t, 2, l.Passes(2))
	l.Recipe.Loss.KL = 0.1
	require.Equal(t, 3, l.Passes(2), "the reference scores them, too")
	l.Recipe.Loss.KL = 0
	params, grads, _ := l.Policy.Slabs()
	read := func(slab kernels.Buffer) []float32 {
		host := make([]float32, slab.Len())
		require.NoError(t, b.Download(host, slab))
		return host
	}
	decays := make([]bool, params.Len())
	for i := range decays {
		decays[i] = !slices.ContainsFunc(l.Policy.Spared(), func(r [2]int) bool { return r[0] <= i && i < r[1] })
	}
	m, v := make([]float64, params.Len()), make([]float64, params.Len())
	for step := 1; step <= 3; step++ {
		rate := l.Rate(step)
		require.InDelta(t, 0.02*(1-float64(step-1)/4), rate, 1e-15)
		before := read(params)
		u, err := l.Update(t.Context(), datums, 1, rate, true)
		require.NoError(t, err)
		require.Greater(t, u.GradNorm, 0.01)
		g, after := read(grads), read(params)
		worst := 0.0
		for i := range g {
			x := float64(g[i]) * 0.01 / u.GradNorm
			m[i], v[i] = 0.7*m[i]+0.3*x, 0.8*v[i]+0.2*x*x
			root := math.Sqrt(v[i] / (1 - math.Pow(0.8, float64(step))))
			want := float64(before[i]) - rate*m[i]/(1-math.Pow(0.7, float64(step)))/(root+0.001)
			if decays[i] {
				want -= rate * 0.3 * float64(before[i])
			}
			worst = max(worst, math.Abs(want-float64(after[i])))
		}
		require.Less(t, worst, 1e-6)
	}
}
