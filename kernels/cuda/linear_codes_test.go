//go:build gpu

package cuda

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/seed-7879b91d/grpo/kernels"
)

func init() {
	tasks["codes"] = func() error { return inLab(codesLikeNumbers) }
}

// Products with 4-bit weights, in every tile, give the same bits as with these weights in bf16, and write nothing outside the window.
func codesLikeNumbers(l *lab) error {
	for i, s := range []struct{ t, n, k, block int }{
		{1, 7, 16, 16}, {17, 100, 80, 64}, {131, 150, 96, 32}, {16, 33, 416, 64}, {3, 70, 256, 128}, {33, 130, 64, 64},
	} {
		coded, plain := l.codes(s.n, s.k, s.block)
		for j, dtype := range []kernels.DType{kernels.BF16, kernels.BF16Rounding} {
			coded.dtype, plain.dtype = dtype, dtype
			for _, op := range []string{linearName, gradXName} {
				outer, inner := s.n, s.k
				if op == gradXName {
					outer, inner = inner, outer
				}
				o := epilogue{alpha: 0.7, accumulate: (i+j)%2 == 0}
				x, out := l.columns(s.t, inner, i%2 == 0), l.columns(s.t, outer, true)
				for _, t := range tensorTiles {
					want, got := l.again(out), l.again(out)
					err := errors.Join(l.multiply(l.s, op, t, want, x.window, plain, o, s.t), l.multiply(l.s, op, t, got, x.window, coded, o, s.t))
					if err != nil {
						return err
					}
					what := fmt.Sprintf("%s, %v, %d rows, %d × %d in blocks of %d, tile %s", op, dtype, s.t, s.n, s.k, s.block, t.name)
					if err := errors.Join(sameBits(what, l.all(want, out), l.all(got, out)), checkBeside(out, l.all(got, out))); err != nil {
						return err
					}
				}
			}
		}
		if err := l.free(); err != nil {
			return err
		}
	}
	return nil
}

// codes are random 4-bit weights on the card, and the same weights in bf16.
func (l *lab) codes(n, k, block int) (coded, plain weights) {
	q := kernels.Quantised{Rows: n, Cols: k, Block: block, Codes: make([]byte, n*k/2), Scales: l.normals(ceil(n*k, block))}
	copy(q.Values[:], l.normals(16))
	for i := range q.Codes {
		q.Codes[i] = byte(l.rng.Uint32())
	}
	c, _, ok := codesOf([]kernels.Quantised{q})
	if !ok {
		panic("these are no codes")
	}
	var rows []byte
	for row := range slices.Chunk(q.Codes, k/2) {
		rows = append(append(rows, row...), make([]byte, c.pitch-k/2)...)
	}
	var scales []float32
	for i := range n * c.groups {
		scales = append(scales, q.Scales[i<<c.shift/block])
	}
	c.scales, c.values = l.put(scales, 4*len(scales)), l.put(q.Values[:], 4*16)
	coded = weights{at: l.put(rows, len(rows)), stride: c.pitch, n: n, k: k, codes: c}

	decoded, numbers := make([]float32, n*k), make([]uint16, n*k)
	q.Decode(decoded, 0)
	for i, x := range decoded {
		u := math.Float32bits(x)
		numbers[i] = uint16((u + 0x7fff + u>>16&1) >> 16)
	}
	return coded, weights{at: l.put(numbers, 2*len(numbers)), stride: k, n: n, k: k}
}
