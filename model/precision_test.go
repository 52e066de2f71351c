package model

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/model/internal/consistent"
)

// Rounding factors of weights, or keys and values, changes log-probabilities, but no more than 8 bits per number explain; and it is done,
// forward and backward.
func TestRoundingMovesScoresALittle(t *testing.T) {
	race.SkipSerial(t)
	for _, name := range goldenCases {
		for how, o := range roundings {
			t.Run(name+" "+how, func(t *testing.T) { testRounding(t, name, o, kernels.Serial) })
		}
		t.Run(name+" bf16 everywhere in tiles", func(t *testing.T) { testRounding(t, name, roundings["bf16 everywhere"], kernels.Tiles) })
	}
}

// In integers they change as little: weights are not rounded to bf16 there, which has most of the effect.
func TestWholeNumbersMoveScoresALittle(t *testing.T) {
	for _, name := range []string{"nf4-double", "nf4-single"} {
		whole := testRounding(t, name, Options{Precision: I16}, kernels.Serial)
		require.Less(t, whole, 1.3*testRounding(t, name, Options{Precision: BF16}, kernels.Serial), name)
	}
}

// A tile unit multiplies only bf16, so with order=tiles a cache and an adapter are rounded if the model is; the plan agrees.
func TestWhatIsRoundedWhereNobodySays(t *testing.T) {
	for _, c := range []struct {
		precision, others Precision
		order             kernels.Order
	}{
		{F32, F32, kernels.Serial}, {BF16, F32, kernels.Serial}, {F32, F32, kernels.Tiles}, {BF16, BF16, kernels.Tiles},
		{I16, F32, kernels.Tiles},
	} {
		b := backendtest.CPU(t, cpu.Options{})
		kernels.SetOrder(b, c.order)
		o := Options{Precision: c.precision, Cache: Auto, AdapterPrecision: Auto}
		if c.precision == I16 {
			o.Quantise = NF4
		}
		p, err := Open(b, goldenDir("qwen3-tied"), false, o)
		require.NoError(t, err)
		require.Equal(t, []Precision{c.others, c.others}, []Precision{p.Cache, p.AdapterPrecision}, c)
		work := p.TrainingWork(4, 8)
		require.Positive(t, work.Products, c)
		require.Equal(t, c.others == BF16, work.Rest == 0, c)
		sketched, err := Sketch(kernels.NewLedger(b), goldenDir("qwen3-tied"), false, o)
		require.NoError(t, err)
		require.Equal(t, []Precision{c.others, c.others}, []Precision{sketched.Cache, sketched.AdapterPrecision}, c)
		require.NoError(t, b.Close())
	}
}

// The precision is chosen by the weights that the model uses; other tensors in the files do not count.
func TestTensorsThatNoModelReadsChooseNoPrecision(t *testing.T) {
	set, err := tensorfile.OpenModel(goldenDir("qwen3-tied"))
	require.NoError(t, err)
	defer set.Close()
	cfg, err := ReadConfig(goldenDir("qwen3-tied"))
	require.NoError(t, err)
	only := func(convert string, extra ...tensorfile.Source) bool {
		all := extra
		for _, name := range set.Names() {
			w, err := set.Tensor(name)
			require.NoError(t, err)
			if name == convert {
				all = append(all, tensorfile.FromFloat32s(name, tensorfile.Float32s(w), w.Shape...))
			} else {
				all = append(all, tensorfile.FromTensor(w))
			}
		}
		dir := t.TempDir()
		require.NoError(t, tensorfile.WriteModel(dir, all, nil))
		written, err := tensorfile.OpenModel(dir)
		require.NoError(t, err)
		defer written.Close()
		require.NoError(t, consistent.Check(cfg, written), "unused tensors do not count")
		return consistent.OnlyBF16(cfg, written)
	}
	require.True(t, only(""))
	require.True(t, only("model.norm.weight"))
	require.False(t, only("model.layers.0.mlp.down_proj.weight"))
	require.True(t, only("", tensorfile.FromFloat32s("v_head.summary.weight", []float32{1, 2}, 1, 2),
		tensorfile.FromFloat32s("v_head.norm.weight", []float32{1, 2}, 2)))
}

func testRounding(t *testing.T, name string, o Options, order kernels.Order) (mean float64) {
	var train goldenTrain
	readJSON(t, &train, name, "train.json")
	run := func(o Options, order kernels.Order) (scores [][]float32, grads []float32) {
		b := backendtest.CPU(t, cpu.Options{Order: order})
		defer func() { require.NoError(t, b.Close()) }()
		p := openGolden(t, b, name, "train_init", o)
		scores, err := p.Score(t.Context(), train.sequences(), 1)
		require.NoError(t, err)
		_, err = p.Accumulate(t.Context(), train.Datums, importanceSampling)
		require.NoError(t, err)
		g, err := p.Gradients()
		require.NoError(t, err)
		return scores, g.Values
	}
	exact, exactGrads := run(Options{}, kernels.Serial)
	rounded, roundedGrads := run(o, order)

	var n, squares, worst float64
	for i := range exact {
		for j := range exact[i] {
			off := math.Abs(float64(rounded[i][j]) - float64(exact[i][j]))
			n, squares, worst = n+1, squares+off*off, max(worst, off)
		}
	}
	mean = math.Sqrt(squares / n)
	t.Logf("%s: log-probabilities move by %.2g on average, %.2g at most", name, mean, worst)
	require.NotZero(t, mean)
	require.Less(t, worst, 0.1)
	require.Less(t, mean, 0.02)

	var dot, a, b float64
	for i := range exactGrads {
		x, y := float64(exactGrads[i]), float64(roundedGrads[i])
		dot, a, b = dot+x*y, a+x*x, b+y*y
	}
	cosine := dot / math.Sqrt(a*b)
	t.Logf("%s: the cosine between the gradients is %.5f", name, cosine)
	require.Less(t, cosine, 1.0)
	require.Greater(t, cosine, 0.99)
	return mean
}
