package tinker

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/serving/tinker/client"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/wire"
)

// Each loss by its formula, for one token, and its derivative with respect to lp.
var lossFormulas = map[string]struct {
	config  map[string]float64
	formula func(lp, q, a float64) (loss, slope float64)
}{
	"importance_sampling": {nil, func(lp, q, a float64) (float64, float64) {
		r := math.Exp(lp - q)
		return -r * a, -r * a
	}},
	"ppo": {map[string]float64{"clip_low_threshold": 0.9, "clip_high_threshold": 1.3}, func(lp, q, a float64) (float64, float64) {
		r := math.Exp(lp - q)
		clipped := max(0.9, min(r, 1.3))
		if r*a <= clipped*a {
			return -r * a, -r * a
		}
		return -clipped * a, 0
	}},
	"cispo": {map[string]float64{"clip_high_threshold": 1.5}, func(lp, q, a float64) (float64, float64) {
		r := max(0, min(math.Exp(lp-q), 1.5))
		return -r * lp * a, -r * a
	}},
	"dro": {map[string]float64{"beta": 0.3}, func(lp, q, a float64) (float64, float64) {
		return -(lp*a - 0.15*(lp-q)*(lp-q)), -(a - 0.3*(lp-q))
	}},
}

// A loss has the value of its formula, and its gradient is that of a cross entropy whose weights are the derivatives of the formula,
// which is how a client implements its own loss.
func TestLossesAreTheirFormulas(t *testing.T) {
	s := serve(t, t.TempDir())
	n := s.connect(t)
	var targets = [][]int32{tokens1[1:], tokens2[1:]}
	own, builtin := train(t, n, 3), train(t, n, 3)
	warm := func(m *client.Training) { // so that B is not zero
		awaitGradient(t, m, crossEntropy(weightedDatum(tokens1, 3, 1)))
		stepped(t, m, 1e-3)
	}
	warm(own)
	warm(builtin)
	for _, name := range slices.Sorted(maps.Keys(lossFormulas)) {
		f := lossFormulas[name]
		forward := crossEntropy(weightedDatum(tokens1, 0, 0), weightedDatum(tokens2, 0, 0))
		forward.ForwardOnly = true
		lp := awaitGradient(t, own, forward).LogProbs
		require.Equal(t, 0.0, awaitGradient(t, own, forward).Metrics["loss:sum"])
		var ratio, custom wire.ForwardBackward
		ratio = wire.ForwardBackward{Loss: name, Config: f.config}
		custom.Loss = "cross_entropy"
		want := 0.0
		for i, tokens := range [][]int32{tokens1, tokens2} {
			rows := len(tokens) - 1
			q, a, w := make([]float32, rows), make([]float32, rows), make([]float32, rows)
			for p := range rows {
				q[p] = lp[i].Floats[p] + float32(p%4)*0.3 - 0.5 // ratios on both sides of the clip bounds
				if a[p] = float32(p%3) - 1.2; p == 0 {
					q[p], a[p] = lp[i].Floats[p], 0 // of the prompt
				}
				loss, slope := f.formula(float64(lp[i].Floats[p]), float64(q[p]), float64(a[p]))
				want += loss
				w[p] = float32(-slope)
			}
			inputs := map[string]wire.Tensor{"target_tokens": wire.Ints1(targets[i])}
			given, weighted := maps.Clone(inputs), maps.Clone(inputs)
			given["logprobs"], given["advantages"] = wire.Floats1(q), wire.Floats1(a)
			weighted["weights"] = wire.Floats1(w)
			ratio.Data = append(ratio.Data, wire.Datum{Tokens: tokens[:rows], Inputs: given})
			custom.Data = append(custom.Data, wire.Datum{Tokens: tokens[:rows], Inputs: weighted})
		}
		out := awaitGradient(t, builtin, ratio)
		require.InEpsilon(t, want, out.Metrics["loss:sum"], 1e-6, name)
		require.Equal(t, lp, out.LogProbs, name)
		awaitGradient(t, own, custom)
		norm := func(m *client.Training) float64 {
			return stepped(t, m, 0)["metrics"].(map[string]any)["grad_norm"].(float64)
		}
		require.InEpsilon(t, norm(own), norm(builtin), 1e-5, name)
	}
}

// Several targets at a position are separate losses.
func TestCrossEntropyOfSeveralTargets(t *testing.T) {
	s := serve(t, t.TempDir())
	m := train(t, s.connect(t), 3)
	rows := 4
	tokens := tokens1[:rows]
	column := func(k int) wire.Datum {
		targets, w := make([]int32, rows), make([]float32, rows)
		for i := range rows {
			targets[i], w[i] = int32(20+3*i+k), float32(k+i)*0.3
		}
		return wire.Datum{Tokens: tokens, Inputs: map[string]wire.Tensor{"target_tokens": wire.Ints1(targets), "weights": wire.Floats1(w)}}
	}
	one, two := column(0), column(1)
	both := wire.Datum{Tokens: tokens, Inputs: map[string]wire.Tensor{}}
	targets, w := wire.Tensor{DType: wire.I64, Shape: []int64{4, 2}}, wire.Tensor{DType: wire.F32, Shape: []int64{4, 2}}
	for i := range rows {
		for _, c := range []wire.Datum{one, two} {
			targets.Ints = append(targets.Ints, c.Inputs["target_tokens"].Ints[i])
			w.Floats = append(w.Floats, c.Inputs["weights"].Floats[i])
		}
	}
	both.Inputs["target_tokens"], both.Inputs["weights"] = targets, w
	apart, together := awaitGradient(t, m, crossEntropy(one, two)), awaitGradient(t, m, crossEntropy(weightedDatum(tokens1, 1, 0), both))
	require.Equal(t, []int64{4, 2}, together.LogProbs[1].Shape)
	for i := range rows {
		require.Equal(t, apart.LogProbs[0].Floats[i], together.LogProbs[1].Floats[2*i])
		require.Equal(t, apart.LogProbs[1].Floats[i], together.LogProbs[1].Floats[2*i+1])
	}
	require.InEpsilon(t, apart.Metrics["loss:sum"], together.Metrics["loss:sum"], 1e-9)
}

// An invalid request fails by its future, uses up its sequence number, and changes nothing.
func TestRequestsThatAreWrong(t *testing.T) {
	s := serve(t, t.TempDir())
	m := train(t, s.connect(t), 3)
	good := weightedDatum(tokens1, 3, 1)
	with := func(change func(d *wire.Datum)) wire.ForwardBackward {
		d := wire.Datum{Tokens: slices.Clone(good.Tokens), Inputs: maps.Clone(good.Inputs)}
		change(&d)
		return crossEntropy(good, d)
	}
	for want, r := range map[string]wire.ForwardBackward{
		"loss_fn: found \"best\"":             {Loss: "best", Data: crossEntropy(good).Data},
		"has no setting \"clip\"":             {Loss: "ppo", Config: map[string]float64{"clip": 1}, Data: crossEntropy(good).Data},
		"data: found no datum":                crossEntropy(),
		"data 1: model_input has an image":    with(func(d *wire.Datum) { d.Other = "an image" }),
		"data 1: target_tokens: found none":   with(func(d *wire.Datum) { delete(d.Inputs, "target_tokens") }),
		"data 1: target_tokens: found 6":      with(func(d *wire.Datum) { d.Tokens = d.Tokens[1:] }),
		"data 1: weights: found shape [2]":    with(func(d *wire.Datum) { d.Inputs["weights"] = wire.Floats1([]float32{1, 2}) }),
		"data 1: token 1000000 at position 0": with(func(d *wire.Datum) { d.Tokens[0] = 1000000 }),
		"weights: found +Inf at position 0, expected a finite number": with(func(d *wire.Datum) {
			d.Inputs["weights"] = wire.Floats1(slices.Repeat([]float32{float32(math.Inf(1))}, 6))
		}),
		"logprobs: found NaN at position 0": {Loss: "dro", Data: with(func(d *wire.Datum) {
			d.Inputs["logprobs"] = wire.Floats1(slices.Repeat([]float32{float32(math.NaN())}, 6))
			d.Inputs["advantages"] = d.Inputs["weights"]
		}).Data[1:]},
		"logprobs: found none, but the loss": {Loss: "dro", Data: crossEntropy(good).Data},
		"data 1: target -5 at position 0": with(func(d *wire.Datum) {
			d.Inputs["target_tokens"] = wire.Ints1(slices.Repeat([]int32{-5}, 6))
		}),
		"data 0: sequence of 5000 tokens":   crossEntropy(weightedDatum(make([]int32, 5001), 1, 1)),
		"data 0: model_input has no tokens": crossEntropy(weightedDatum([]int32{1}, 0, 1)),
	} {
		f, err := m.ForwardBackward(t.Context(), r)
		require.NoError(t, err, want)
		_, err = f.Wait(t.Context())
		var failed *client.FailedError
		require.ErrorAs(t, err, &failed, want)
		require.Equal(t, "user", failed.Category)
		require.ErrorContains(t, err, want)
	}
	for want, adam := range map[string]map[string]any{
		"adam_beta1 is 2":     {"beta1": 2},
		"learning_rate is -1": {"learning_rate": -1},
		"adam_eps is 0":       {"eps": 0},
	} {
		f, err := m.Do(t.Context(), "optim_step", map[string]any{"adam_params": adam})
		require.NoError(t, err)
		_, err = f.Wait(t.Context())
		require.ErrorContains(t, err, "user: "+want)
	}
	require.Equal(t, 0.0, stepped(t, m, 1)["metrics"].(map[string]any)["grad_norm"])
}
