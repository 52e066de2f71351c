package cpu

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/kernels"
)

// Rows that take many rounds have the same bits as in one.
func TestManyRounds(t *testing.T) {
	const T, n, k, rank = 200, 96, 64, 8
	r := rand.New(rand.NewPCG(5, 5))
	q := kernels.Quantised{Rows: n, Cols: k, Block: 64, Codes: make([]byte, n*k/2), Scales: normal(r, n)}
	for i := range q.Codes {
		q.Codes[i] = byte(r.Uint32())
	}
	copy(q.Values[:], normal(r, 16))
	in, bias, w := normal(r, T*max(n, k)), normal(r, n), normal(r, n*k)
	run := func(o kernels.Order) (all [][]float32) {
		b := open(t, Options{Threads: 2, Order: o, Variant: withoutTileUnit()})
		x, y, z := upload(t, b, in), upload(t, b, make([]float32, T*max(n, k))), upload(t, b, make([]float32, T*2*rank))
		read := func(buf kernels.Buffer) { all = append(all, download(t, b, buf)) }
		opt := kernels.LinearOpt{Alpha: 1, Bias: upload(t, b, bias)}
		whole, err := kernels.NewQuantised(b, kernels.I16Rounding, q)
		require.NoError(t, err)
		b.Linear(kernels.Whole(y, n), kernels.Whole(x, k), whole, opt, T)
		read(y)

		m := weights(t, b, kernels.BF16Rounding, w, n, k)
		b.Linear(kernels.Whole(y, n), kernels.Whole(x, k), m, opt, T)
		read(y)
		l := &kernels.LowRank{Scale: 2, A: weights(t, b, kernels.BF16Rounding, w[:2*rank*k], 2*rank, k),
			Windows: []kernels.Window{{N: 64}, {From: 64, N: 32}}}
		for _, at := range l.Windows {
			l.B = append(l.B, weights(t, b, kernels.BF16Rounding, w[:at.N*rank], at.N, rank))
		}
		kernels.LinearLowRank(b, kernels.Whole(y, n), kernels.Whole(z, 2*rank), kernels.Whole(x, k), m, opt.Bias, l, T)
		read(y)
		read(z)
		kernels.LinearLowRankGradX(b, kernels.Whole(y, k), kernels.Whole(z, 2*rank), kernels.Whole(x, n), m, l, T)
		read(y)
		read(z)
		return all
	}
	for _, o := range []kernels.Order{kernels.Serial, kernels.Tiles} {
		want := run(o)
		func() {
			defer func(usual int) { packedBytes = usual }(packedBytes)
			packedBytes = 1 // as few rows per round as possible
			require.Equal(t, want, run(o), o)
		}()
	}
}
