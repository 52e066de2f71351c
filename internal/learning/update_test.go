package learning

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/model"
)

// Each update of a step begins with a fresh gradient, and the statistics are of the last one. A step that has begun to change the policy
// is completed even if a stop is requested.
func TestUpdatesOfAStep(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{Threads: 1})
	defer b.Close()
	l, datums := learner(t, b, "loss=gspo")
	none, err := l.Update(t.Context(), nil, 1, 0, false)
	require.NoError(t, err)
	require.False(t, none.Updated)
	require.Zero(t, l.Adam.Steps())
	one, err := l.Update(t.Context(), datums[:1], 1, 0, false)
	require.NoError(t, err)
	require.True(t, one.Updated)
	require.Equal(t, 1, l.Adam.Steps())
	first, err := l.Update(t.Context(), datums, 1, 0, false) // changes nothing
	require.NoError(t, err)
	require.NotZero(t, first.Rows)
	again, err := l.Update(t.Context(), datums, 2, 0, false)
	require.NoError(t, err)
	require.Equal(t, first.GradNorm, again.GradNorm)
	require.Equal(t, first.Stats, again.Stats)

	datums[0].OldLogProbs[len(datums[0].OldLogProbs)-1] += 1 // so that it is clipped
	clipped, err := l.Update(t.Context(), datums, 1, 0, true)
	require.NoError(t, err)
	twice, err := l.Update(t.Context(), datums, 2, 0, true)
	require.NoError(t, err)
	require.NotZero(t, clipped.Clipped)
	require.Equal(t, clipped.Clipped, twice.Clipped, "Clipped is that of one update, not the sum")

	ctx, cancel := context.WithCancel(t.Context())
	before := l.Adam.Steps()
	l.Policy.Progress = func(int, int) {
		if l.Adam.Steps() > before {
			cancel()
		}
	}
	u, err := l.Update(ctx, datums, 3, 1e-3, true)
	require.NoError(t, err)
	require.True(t, u.Updated)
	require.Error(t, ctx.Err())
	require.Equal(t, before+3, l.Adam.Steps())
}

// A datum with a non-finite gradient is identified, no update is made, and its gradient is discarded.
func TestCulprits(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{Threads: 1})
	defer b.Close()
	l, datums := learner(t, b, "tis=token")
	datums[0] = model.NewDatum([]int32{5, 9, 11}, 1, []float32{-5, -6}, 1) // of another length
	for i := range datums[2].Advantages {
		datums[2].Advantages[i] = math.MaxFloat32
	}
	u, err := l.Update(t.Context(), datums, 1, 1e-3, false)
	require.NoError(t, err)
	require.NotNil(t, u.NonFinite)
	require.False(t, u.Updated)
	require.Zero(t, l.Adam.Steps())
	culprits, err := l.Culprits(t.Context(), datums)
	require.NoError(t, err)
	require.Equal(t, []int{2}, culprits)
	norm, err := l.Adam.GradNorm()
	require.NoError(t, err)
	require.Zero(t, norm)
}

// A policy that computes NaN is recognised by the result of an update, or by a datum.
func TestAPolicyThatIsLost(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{Threads: 1})
	defer b.Close()
	l, datums := learner(t, b)
	for x, lost := range map[float64]bool{0.5: false, math.NaN(): true, math.Inf(1): true} {
		for _, u := range []Update{{OnPolicy: x}, {Drift: Drift{KL2: x}}} {
			require.Equal(t, lost, l.CheckUpdate(u, new(configs.Config)) != nil, "%+v", u)
		}
	}
	told := 0
	l.Policy.Progress = func(int, int) { told++ }
	sound, err := l.IsFinite(t.Context(), datums[0])
	require.NoError(t, err)
	require.True(t, sound)
	require.Zero(t, told, "the check of one datum reports no progress")
	require.NotNil(t, l.Policy.Progress)

	params, _, _ := l.Policy.Slabs()
	host := make([]float32, params.Len())
	for i := range host {
		host[i] = float32(math.NaN())
	}
	b.Upload(params, host)
	l.Policy.Publish()
	sound, err = l.IsFinite(t.Context(), datums[0])
	require.NoError(t, err)
	require.False(t, sound)
}
