//go:build gpu

package footprint

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cuda/driver"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/optim"
	"github.com/seed-7879b91d/grpo/sampler"
)

// On a card with as much memory as planned, a run does not fail, and uses nearly all of it.
func TestOnACardThePlanIsEnough(t *testing.T) {
	b := backendtest.Card(t)
	defer func() { require.NoError(t, b.Close()) }()
	r := run(t, "max_rows=1000", "max_sequences=12")
	r.Backend = b
	p, err := Estimate(r)
	require.NoError(t, err)
	before, known := b.Free()
	require.True(t, known)
	require.Contains(t, p.Items, Item{"transfers", sides{host: driver.PinnedBytes}})

	o, err := ModelOptions(r.Config)
	require.NoError(t, err)
	policy, err := model.Open(b, r.Dir, false, o)
	require.NoError(t, err)
	require.Equal(t, model.BF16, policy.Precision)
	layout, err := AdapterLayout(r.Config, policy.LoRADims())
	require.NoError(t, err)
	a := lora.New(layout)
	a.Init(1)
	require.NoError(t, policy.Attach(a))
	params, grads, locate := policy.Slabs()
	adam, err := optim.NewAdam(b, params, grads, optim.Defaults(), locate)
	require.NoError(t, err)
	_, _, err = policy.Prepare(p.Sampler.MaxLength)
	require.NoError(t, err)
	e, err := sampler.New(policy, p.Sampler)
	require.NoError(t, err)

	params1 := sampler.Params{Temperature: 1, MaxTokens: 4}
	_, err = e.Sample(t.Context(), []sampler.Request{{Prompt: []int32{1, 2, 3}, N: 12, Params: params1}}, sampler.Events{})
	require.NoError(t, err)
	var datums []model.Datum // the largest possible batch
	for rows := r.Config.MaxRows; rows > 1; {
		tokens := make([]int32, min(rows, p.Sampler.MaxLength))
		for k := range tokens {
			tokens[k] = int32((k + len(datums)) % 100) // so that they share no prefix
		}
		rows -= len(tokens)
		datums = append(datums, model.NewDatum(tokens, 1, make([]float32, len(tokens)-1), 1))
	}
	likelihood := model.Objective{Loss: kernels.Loss{Kind: kernels.CrossEntropy}, Reduction: model.TokenMean, Temperature: 1}
	_, err = policy.Accumulate(t.Context(), datums, likelihood)
	require.NoError(t, err)
	_, err = adam.Step(1e-4)
	require.NoError(t, err)
	policy.Publish()
	after, _ := b.Free()
	taken, planned := before.Bytes-after.Bytes, int64(p.total(device))
	require.LessOrEqual(t, taken, planned, p)
	require.Greater(t, taken, planned*5/6, p)
}
