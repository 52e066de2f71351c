package kerneltest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest/oracle"
)

// testQuantised: a matrix of four bits a weight gives the bits of a matrix of the decoded weights in every operation,
// whether blocks end with rows or not, in one part or in several, and with subnormal weights.
func testQuantised(t *testing.T, m *backend) {
	for _, s := range []struct {
		rows        []int
		cols, block int
		scale       float32 // of the largest
	}{
		{[]int{1}, 1, 2, 0.1}, {[]int{7}, 33, 64, 0.1}, {[]int{33}, 8, 64, 0.1}, {[]int{40, 20, 20}, 64, 64, 0.1},
		{[]int{70}, 416, 64, 0.1}, {[]int{1100}, 36, 64, 0.1}, {[]int{33, 7}, 1160, 128, 0.1}, {[]int{70}, 24, 12, 0.1},
		{[]int{64}, 70, 70, 0.1}, {[]int{33}, 1152, 96, 0.1}, {[]int{33}, 64, 64, 1e-37},
	} {
		random := rand.New(rand.NewPCG(uint64(s.cols), uint64(len(s.rows))))
		var parts []kernels.Quantised
		var weights []float32
		for _, rows := range s.rows {
			q := quantised(random, rows, s.cols, s.block, s.scale)
			decoded := make([]float32, rows*s.cols)
			q.Decode(decoded, 0)
			parts, weights = append(parts, q), append(weights, decoded...)
		}
		for _, dtype := range []kernels.DType{kernels.BF16, kernels.BF16Rounding} {
			q, err := kernels.NewQuantised(m.Backend, dtype, parts...)
			if err != nil {
				t.Fatal(err)
			}
			plain := m.load(dtype, len(weights)/s.cols, s.cols, oracle.RoundedToBF16(weights))
			if !q.Compressed() || q.DType() != dtype || q.Rows() != plain.Rows() || q.Cols() != s.cols {
				t.Fatalf("%v of %v: a matrix of %v, %d × %d", dtype, s, q.DType(), q.Rows(), q.Cols())
			}
			rows := []int{1, 5, 30, 140}
			if emulated {
				rows = []int{1, 30}
			}
			if q.Bytes() == plain.Bytes() {
				rows = rows[:1] // it is stored as decoded numbers, and one row shows that they are right
			}
			for _, T := range rows {
				equal(t, fmt.Sprintf("%v × %d in blocks of %d, %v, %d rows", s.rows, s.cols, s.block, dtype, T), m.matrixResults(plain, T),
					m.matrixResults(q, T))
				if t.Failed() {
					return
				}
			}
		}
	}
}

// quantised are rows of random codes and scales.
func quantised(random *rand.Rand, rows, cols, block int, scale float32) kernels.Quantised {
	n := rows * cols
	q := kernels.Quantised{Rows: rows, Cols: cols, Block: block, Codes: make([]byte, (n+1)/2), Scales: make([]float32, (n+block-1)/block)}
	for i := range q.Values {
		q.Values[i] = float32(i)/7.5 - 1
	}
	for i := range q.Codes {
		q.Codes[i] = byte(random.Uint32())
	}
	for i := range q.Scales {
		q.Scales[i] = scale * random.Float32()
	}
	return q
}
