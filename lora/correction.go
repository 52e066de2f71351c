package lora

import (
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/seed-7879b91d/grpo/internal/tensorfile"
)

// correction is the product scale·B·A that is added to one weight [out, in].
type correction struct {
	a, b     []float32 // [rank, in], [out, rank]
	rank, in int
	scale    float64
}

func newCorrection(a, b []float32, c Config) correction {
	return correction{a: a, b: b, rank: c.Rank, in: len(a) / c.Rank, scale: c.Alpha / float64(c.Rank)}
}

// write writes the corrected weight, a block of rows at a time.
func (c correction) write(w io.Writer, t tensorfile.Tensor) error {
	const blockRows = 256
	rowBytes := c.in * t.Encoding.Size()
	at := c.transposedA()
	block := make([]byte, min(blockRows, t.Shape[0])*rowBytes)
	for from := 0; from < t.Shape[0]; from += blockRows {
		rows := t
		rows.Bytes = t.Bytes[from*rowBytes : min(from+blockRows, t.Shape[0])*rowBytes]
		merged := rows
		merged.Bytes = block[:len(rows.Bytes)]
		c.addTo(merged, rows, at, c.b[from*c.rank:])
		if err := tensorfile.CheckFinite(merged); err != nil {
			return fmt.Errorf("the merged weight, from row %d on: %w", from, err)
		}
		if _, err := w.Write(merged.Bytes); err != nil {
			return err
		}
	}
	return nil
}

// transposedA is A as [in, rank], so that the inputs of one output number are contiguous.
func (c correction) transposedA() []float32 {
	at := make([]float32, len(c.a))
	for r := range c.rank {
		for j, x := range c.a[r*c.in : (r+1)*c.in] {
			at[j*c.rank+r] = x
		}
	}
	return at
}

// addTo writes rows + scale·b·a into merged, on all cores, which take groups of rows in turn.
func (c correction) addTo(merged, rows tensorfile.Tensor, at, b []float32) {
	rowBytes := c.in * rows.Encoding.Size()
	n := len(rows.Bytes) / rowBytes
	var wg sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for worker := range workers {
		wg.Go(func() {
			g := newGroup(c)
			for i := worker * groupRows; i < n; i += workers * groupRows {
				count := min(groupRows, n-i)
				g.products(at, b[i*c.rank:(i+count)*c.rank])
				for k := range count {
					from, to := (i+k)*rowBytes, (i+k+1)*rowBytes
					tensorfile.Widen(g.weights, rows.Encoding, rows.Bytes[from:to])
					for j, x := range g.weights {
						// The conversion keeps the product from being fused into the sum, which would
						// round it differently from one kind of processor to another.
						g.sums[k][j] = float64(x) + float64(c.scale*g.sums[k][j])
					}
					tensorfile.Narrow(merged.Bytes[from:to], rows.Encoding, g.sums[k])
				}
			}
		})
	}
	wg.Wait()
}

// groupRows rows are computed together: they read A once, and their sums are independent chains of additions.
const groupRows = 4

// group is the scratch memory of one core.
type group struct {
	b       [groupRows][]float64 // rows of B
	sums    [groupRows][]float64 // [in]
	weights []float32            // [in]
}

func newGroup(c correction) *group {
	g := &group{weights: make([]float32, c.in)}
	for k := range g.b {
		g.b[k], g.sums[k] = make([]float64, c.rank), make([]float64, c.in)
	}
	return g
}

// products fills sums with b·a for up to four rows of b. Products of float32 numbers are exact in
// float64, so that each sum depends only on its order, which is that of the rank.
func (g *group) products(at, b []float32) {
	rank := len(g.b[0])
	for i, x := range b {
		g.b[i/rank][i%rank] = float64(x)
	}
	b0, b1, b2, b3 := g.b[0][:rank], g.b[1][:rank], g.b[2][:rank], g.b[3][:rank]
	for j := range g.sums[0] {
		var s0, s1, s2, s3 float64
		for r, x := range at[j*rank : (j+1)*rank] {
			x := float64(x)
			s0 += x * b0[r]
			s1 += x * b1[r]
			s2 += x * b2[r]
			s3 += x * b3[r]
		}
		g.sums[0][j], g.sums[1][j], g.sums[2][j], g.sums[3][j] = s0, s1, s2, s3
	}
}
