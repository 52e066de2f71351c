package oracle

import (
	"math"
	"slices"

	"github.com/seed-7879b91d/grpo/kernels"
)

// eachQuery calls f for each query row of each span, with the rows that it reads, itself the last, and the head's places
// in the row: its query, its key, its value.
func eachQuery(s kernels.Spans, h kernels.Attn, f func(path []int, head, q, k, v int)) {
	for _, path := range paths(s) {
		path = path[firstOf(h, len(path)):]
		for head := range h.Q {
			kv := head / (h.Q / h.KV)
			f(path, head, head*h.Dim, (h.Q+kv)*h.Dim, (h.Q+h.KV+kv)*h.Dim)
		}
	}
}

// firstOf is the first of n rows that the last of them reads.
func firstOf(a kernels.Attn, n int) int {
	if a.Window == 0 {
		return 0
	}
	return max(0, n-a.Window)
}

// softCap is cap · tanh(x / cap), and its derivative.
func softCap(x float64, cap float32) (y, slope float64) {
	if cap == 0 {
		return x, 1
	}
	t := math.Tanh(x / float64(cap))
	return t * float64(cap), 1 - t*t
}

// paths are the rows that each row reads.
func paths(s kernels.Spans) (all [][]int) {
	starts := own[int32](s.Starts)
	whole := make([][]int, s.N) // the path of the last row of a span
	for i := range s.N {
		if s.Parents != nil && own[int32](s.Parents)[i] >= 0 {
			whole[i] = whole[own[int32](s.Parents)[i]]
		}
		for t := int(starts[i]); t < int(starts[i+1]); t++ {
			whole[i] = append(slices.Clip(whole[i]), t)
			all = append(all, whole[i])
		}
	}
	return all
}

// factor is the scale of scores.
func factor(a kernels.Attn) float64 {
	if a.Scale != 0 {
		return float64(a.Scale)
	}
	return 1 / math.Sqrt(float64(a.Dim))
}

// cached are keys and values as a cache of that type has them.
func cached(x []float32, kv kernels.DType) []float32 {
	if kv == kernels.F32 {
		return x
	}
	return RoundedToBF16(x)
}

func (reference) Attention(out, lse, qkv kernels.Buffer, s kernels.Spans, h kernels.Attn, kv kernels.DType, T int) {
	stored := cached(own[float32](qkv)[:T*h.Width()], kv)
	eachQuery(s, h, func(path []int, head, q, k, v int) {
		t := path[len(path)-1]
		query := row(qkv, h.Width(), t)[q : q+h.Dim]
		mean, logSum := attend(query, h, len(path), func(j int) (key, value []float32) {
			from := stored[path[j]*h.Width():]
			return from[k : k+h.Dim], from[v : v+h.Dim]
		})
		store(row(out, h.OutWidth(), t)[q:q+h.Dim], mean)
		row(lse, h.Q, t)[head] = float32(logSum)
	})
}

// attend is softmax(scores) · values over n positions.
func attend(query []float32, a kernels.Attn, n int, at func(j int) (key, value []float32)) (mean []float64, logSum float64) {
	scale := factor(a)
	score := make([]float64, n)
	top := math.Inf(-1)
	for j := range score {
		key, _ := at(j)
		score[j], _ = softCap(scale*dot(query, key), a.Cap)
		top = max(top, score[j])
	}
	var sum float64
	for _, s := range score {
		sum += math.Exp(s - top)
	}
	logSum = top + math.Log(sum)
	mean = make([]float64, len(query))
	for j := range score {
		p := math.Exp(score[j] - logSum)
		_, value := at(j)
		addScaled(mean, p, value)
	}
	return mean, logSum
}

func (reference) AttentionGrad(dqkv, dout, qkv, out, lse kernels.Buffer, s kernels.Spans, h kernels.Attn, kv kernels.DType,
	T int) {
	scale := factor(h)
	stored := cached(own[float32](qkv)[:T*h.Width()], kv)
	sums := make([][]float64, T)
	for t := range sums {
		sums[t] = make([]float64, h.Width())
	}
	eachQuery(s, h, func(path []int, head, q, k, v int) {
		t := path[len(path)-1]
		query := row(qkv, h.Width(), t)[q : q+h.Dim]
		dOut := row(dout, h.OutWidth(), t)[q : q+h.Dim]
		mean := dot(dOut, row(out, h.OutWidth(), t)[q:q+h.Dim])
		for _, j := range path {
			key, value := stored[j*h.Width()+k:][:h.Dim], stored[j*h.Width()+v:][:h.Dim]
			score, slope := softCap(scale*dot(query, key), h.Cap)
			p := math.Exp(score - float64(row(lse, h.Q, t)[head]))
			dScore := scale * slope * p * (dot(dOut, value) - mean)
			addScaled(sums[t][q:q+h.Dim], dScore, key)
			addScaled(sums[j][k:k+h.Dim], dScore, query)
			addScaled(sums[j][v:v+h.Dim], p, dOut)
		}
	})
	for t := range sums {
		store(row(dqkv, h.Width(), t), sums[t])
	}
}
