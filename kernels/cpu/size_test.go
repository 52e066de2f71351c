package cpu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/testvariants"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model"
)

// regionBytes is what the regions of a backend have grown to.
func (b *backend) regionBytes() (bytes int) {
	for _, r := range append(b.scratches, b.shares[:]...) {
		bytes += r.bytes
	}
	return bytes
}

// Training, scoring and sampling take no more working memory than WorkSize says, and not much less.
func TestWorkSizeIsWhatOperationsKeep(t *testing.T) {
	for _, length := range testvariants.EveryNth(2, 64, 700, 1500) {
		b, planned := worked(t, Options{}, model.F32, length, 1000/length+1, 0)
		require.LessOrEqual(t, b.regionBytes(), planned, length)
		require.Greater(t, b.regionBytes(), planned/2, length)
	}
	for _, precision := range []model.Precision{model.F32, model.BF16} {
		b, planned := worked(t, Options{Order: kernels.Tiles, Variant: withoutTileUnit()}, precision, 64, 16, 0)
		require.LessOrEqual(t, b.regionBytes(), planned, precision)
		require.Greater(t, b.regionBytes(), planned/2, precision)
		require.Equal(t, precision == model.BF16, b.shares[slotLow].bytes > 0, "an adapter is added with its linear in bf16 alone")
	}
	for _, order := range []kernels.Order{kernels.Serial, kernels.Tiles} { // of all weights
		for _, precision := range []model.Precision{model.F32, model.BF16} {
			b, p := openTiny(t, Options{Order: order, Variant: withoutTileUnit()}, model.Options{MaxRows: 1000, Precision: precision}, true)
			planned := train(t, b, p, 64, 16, 0)
			require.LessOrEqual(t, b.regionBytes(), planned, "%v %v", order, precision)
			require.Greater(t, b.regionBytes(), planned/2, "%v %v", order, precision)
		}
	}
	// Sequences with a common prefix: as many as are in a batch, and several in another.
	for begins, sequences := range map[int]int{1: 20, 40: 50, 63: 100} {
		b, planned := worked(t, Options{}, model.F32, 64, sequences, begins)
		require.LessOrEqual(t, b.regionBytes(), planned, begins)
	}
}

// worked is a backend that has trained on sequences of a length and scored one, and what WorkSize says about that. All begin
// with the given number of shared tokens.
func worked(t *testing.T, o Options, p model.Precision, length, sequences, begins int) (b *backend, planned int) {
	with := model.Options{MaxRows: 1000, SharePrefixes: begins > 0, Precision: p, AdapterPrecision: p}
	b, policy := openTiny(t, o, with, false)
	layout, err := lora.NewLayout(lora.Config{Rank: 8, Alpha: 8, Targets: lora.AllTargets()}, policy.LoRADims())
	require.NoError(t, err)
	a := lora.New(layout)
	a.Init(1)
	require.NoError(t, policy.Attach(a))
	return b, train(t, b, policy, length, sequences, begins)
}

// openTiny is a small model of one layer, to be trained as a whole or not.
func openTiny(t *testing.T, o Options, with model.Options, whole bool) (b *backend, p *model.Policy) {
	o.Threads = 2
	b, err := newBackend(o)
	require.NoError(t, err)
	t.Cleanup(func() { b.Close() })
	if whole {
		cfg, err := model.ShapeNamed("tiny/1")
		require.NoError(t, err)
		p, err = model.New(kernels.Checked(b), cfg, 1, with)
		require.NoError(t, err)
		return b, p
	}
	p, err = model.Random(kernels.Checked(b), "tiny/1", with)
	require.NoError(t, err)
	return b, p
}

// train trains on sequences as worked has them, and scores one.
func train(t *testing.T, b *backend, p *model.Policy, length, sequences, begins int) (planned int) {
	work := p.Work(length, true)
	if begins > 0 {
		work.Trees = sequences
	}
	planned = b.WorkSize(work)

	var datums []model.Datum
	for i := range sequences {
		d := model.Datum{Tokens: make([]int32, length), Targets: make([]int32, length), OldLogProbs: make([]float32, length),
			Advantages: make([]float32, length), Mask: make([]bool, length)}
		for k := range length {
			d.Tokens[k], d.Targets[k], d.Mask[k], d.Advantages[k] = int32(k%2048), int32((k+1)%2048), true, 1
			if begins > 0 && k >= begins {
				d.Tokens[k] = int32((k + i) % 2048)
			}
		}
		datums = append(datums, d)
	}
	_, err := p.Accumulate(t.Context(), datums, model.Objective{Reduction: model.Sum, Temperature: 1})
	require.NoError(t, err)
	tokens := append([]int32{1}, datums[0].Tokens...)
	_, err = p.Score(t.Context(), [][]int32{tokens}, 1)
	require.NoError(t, err)
	return planned
}

// Draws that sort tokens take no more than WorkSize says, either.
func TestWorkSizeOfTruncatedDraws(t *testing.T) {
	const V = 150_000
	b := openBare(t, Options{Threads: 2})
	work := kernels.Work{Heads: kernels.Heads{Q: 2, KV: 1, Dim: 32}, Hidden: 64, Intermediate: 64, Vocab: V, Rows: 1, Longest: 64}
	planned := b.WorkSize(work)
	of := func(dtype kernels.DType, src any) kernels.Buffer {
		buf, err := b.Alloc(dtype, 1)
		require.NoError(t, err)
		b.Upload(buf, src)
		return buf
	}
	one := of(kernels.F32, []float32{1})
	in := kernels.DrawIn{InvTemp: one, Uniform: of(kernels.F64, []float64{0.5}), TopK: of(kernels.I32, []int32{40}),
		TopP: of(kernels.F32, []float32{0.9}), MinP: of(kernels.F32, []float32{0})}
	out := kernels.DrawOut{Token: of(kernels.I32, []int32{0}), LogP: of(kernels.F32, []float32{0})}
	kernels.Checked(b).Draw(out, one, weights(t, b, kernels.F32, make([]float32, V), V, 1), in, 1)
	require.LessOrEqual(t, b.regionBytes(), planned)
}

// An allocation that is larger than the free memory is refused.
func TestAllocationsThatCannotBe(t *testing.T) {
	b, err := newBackend(Options{Threads: 1})
	require.NoError(t, err)
	defer b.Close()
	before := inUse.Load()
	_, err = b.Alloc(kernels.F32, 1<<50)
	require.ErrorContains(t, err, "no room for 4503599.63 GB, as this process may take ")
	require.LessOrEqual(t, inUse.Load(), before)
}

// A matrix of weights of about the same magnitude takes what MatrixSize says.
func TestMatrixSize(t *testing.T) {
	b, err := newBackend(Options{Threads: 1})
	require.NoError(t, err)
	defer b.Close()
	l := kernels.NewLedger(b)
	for _, dtype := range []kernels.DType{kernels.F32, kernels.BF16} {
		for _, shape := range [][2]int{{1, 1}, {100, 64}, {1000, 192}, {65, 51}} {
			m, err := b.NewMatrix(dtype, shape[0], shape[1])
			require.NoError(t, err)
			planned, err := l.NewMatrix(dtype, shape[0], shape[1])
			require.NoError(t, err)
			require.Equal(t, m.Bytes(), planned.Bytes())
			require.NoError(t, b.Compress(m)) // of zeroes
			require.NoError(t, l.Compress(planned))
			require.Equal(t, m.Bytes(), planned.Bytes(), "%v %v", dtype, shape)
		}
	}
	var sizes []int
	for _, dtype := range []kernels.DType{kernels.BF16, kernels.F32} {
		c, err := b.NewCache(kernels.Heads{Q: 4, KV: 2, Dim: 48}, dtype, 3, 5)
		require.NoError(t, err)
		l.Take()
		noted, err := l.NewCache(c.Heads(), dtype, 3, 5)
		require.NoError(t, err)
		require.Equal(t, []int{c.Bytes(), c.Bytes()}, []int{noted.Bytes(), taken(l)})
		sizes = append(sizes, c.Bytes())
	}
	require.Equal(t, sizes[1], 2*sizes[0])
}

// taken is what a ledger has noted.
func taken(l *kernels.Ledger) int {
	bytes, host := l.Take()
	return bytes + host
}

// Nor does the norm of a gradient with many parameters, which has many partial sums.
func TestWorkSizeOfANorm(t *testing.T) {
	const n = 40 << 20
	b := openBare(t, Options{Threads: 1})
	work := kernels.Work{Heads: kernels.Heads{Q: 2, KV: 1, Dim: 32}, Hidden: 64, Intermediate: 64, Vocab: 64, Rows: 1, Longest: 64, Trained: n}
	planned := b.WorkSize(work)
	x, err := b.Alloc(kernels.F32, n)
	require.NoError(t, err)
	sum, err := b.Alloc(kernels.F64, 1)
	require.NoError(t, err)
	b.SumSquares(sum, x, n)
	work.Trained = 0
	require.InDelta(t, b.shares[slotPartial].bytes, planned-b.WorkSize(work), 100)
	require.Greater(t, b.shares[slotPartial].bytes, 40_000)
}
