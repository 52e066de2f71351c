package oracle

import (
	"math"

	"github.com/seed-7879b91d/grpo/kernels"
)

func dot(a, b []float32) float64 {
	var sum float64
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// dots are the products of x with every row of m, each added up as dot does it: four at a time, because a sum waits for
// its last term before it takes the next.
func (m *matrix) dots(x []float32) []float64 {
	all := make([]float64, m.rows)
	n := 0
	for ; n+4 <= m.rows; n += 4 {
		a, b, c, d := m.row(n)[:len(x)], m.row(n + 1)[:len(x)], m.row(n + 2)[:len(x)], m.row(n + 3)[:len(x)]
		var sumA, sumB, sumC, sumD float64
		for i, x := range x {
			x := float64(x)
			sumA += x * float64(a[i])
			sumB += x * float64(b[i])
			sumC += x * float64(c[i])
			sumD += x * float64(d[i])
		}
		all[n], all[n+1], all[n+2], all[n+3] = sumA, sumB, sumC, sumD
	}
	for ; n < m.rows; n++ {
		all[n] = dot(x, m.row(n))
	}
	return all
}

// addScaled adds scale · x to each of the sums.
func addScaled(sums []float64, scale float64, x []float32) {
	for i, x := range x[:len(sums)] {
		sums[i] += scale * float64(x)
	}
}

// factors are the numbers x as a product with m rounds them.
func (m *matrix) factors(x []float32) []float32 {
	if m.t != kernels.BF16Rounding {
		return x
	}
	return RoundedToBF16(x)
}

// RoundedToBF16 are the nearest numbers of bf16, ties to even.
func RoundedToBF16(x []float32) []float32 {
	rounded := make([]float32, len(x))
	for i, x := range x {
		bits := math.Float32bits(x)
		rounded[i] = math.Float32frombits((bits + 0x7fff + bits>>16&1) &^ 0xffff)
	}
	return rounded
}

func (reference) Linear(out, x kernels.Cols, w kernels.Matrix, o kernels.LinearOpt, T int) {
	m := ownMatrix(w)
	for t := range T {
		y, products := window(out, t), m.dots(m.factors(window(x, t)))
		for n := range y {
			sum := float64(o.Alpha) * products[n]
			if o.Accumulate {
				sum += float64(y[n])
			}
			if o.Bias != nil {
				sum += float64(own[float32](o.Bias)[n])
			}
			y[n] = float32(sum)
		}
	}
}

func (reference) LinearGradX(dx, dy kernels.Cols, w kernels.Matrix, o kernels.LinearOpt, T int) {
	m := ownMatrix(w)
	for t := range T {
		dx, dy := window(dx, t), m.factors(window(dy, t))
		sums := make([]float64, len(dx))
		for n := range dy {
			addScaled(sums, float64(dy[n]), m.row(n))
		}
		for k, sum := range sums {
			sum *= float64(o.Alpha)
			if o.Accumulate {
				sum += float64(dx[k])
			}
			dx[k] = float32(sum)
		}
	}
}

func (reference) LinearGradW(dw kernels.Buffer, dy, x kernels.Cols, alpha float32, _ kernels.DType, T int) {
	for n := range dy.N {
		dw, sums := row(dw, x.N, n), make([]float64, x.N)
		for t := range T {
			addScaled(sums, float64(window(dy, t)[n]), window(x, t))
		}
		for k, sum := range sums {
			dw[k] = float32(float64(dw[k]) + float64(alpha)*sum)
		}
	}
}

func (reference) BiasGrad(db kernels.Buffer, dy kernels.Cols, T int) {
	sum := make([]float64, dy.N)
	for t := range T {
		for n, d := range window(dy, t) {
			sum[n] += float64(d)
		}
	}
	addTo(own[float32](db), sum)
}

// addTo accumulates the gradient of a parameter.
func addTo(dw []float32, sum []float64) {
	for i, s := range sum {
		dw[i] = float32(float64(dw[i]) + s)
	}
}

// scores are the logits of a row of h, capped and divided by the temperature, and the logarithm of the sum of
// their exponentials.
func scores(h []float32, m *matrix, l kernels.Logits) (z []float64, lse float64) {
	z = m.dots(h)
	top := math.Inf(-1)
	for v := range z {
		bent, _ := softCap(z[v], l.Cap)
		z[v] = float64(l.InvTemp) * bent
		top = max(top, z[v])
	}
	var sum float64
	for _, z := range z {
		sum += math.Exp(z - top)
	}
	return z, top + math.Log(sum)
}

// slopeOf is the derivative of a score by its logit.
func slopeOf(z float64, l kernels.Logits) float64 {
	if l.Cap == 0 {
		return float64(l.InvTemp)
	}
	t := z / float64(l.InvTemp) / float64(l.Cap)
	return float64(l.InvTemp) * (1 - t*t)
}

func (reference) LogProb(out kernels.LogProbOut, h kernels.Buffer, w kernels.Matrix, targets kernels.Buffer,
	l kernels.Logits, T int) {
	m := ownMatrix(w)
	for t := range T {
		var logp, entropy, lse float64
		jacobian := make([]float64, m.cols)
		if target := own[int32](targets)[t]; target >= 0 {
			var z []float64
			z, lse = scores(m.factors(row(h, m.cols, t)), m, l)
			logp = z[target] - lse
			for v := range z {
				p := math.Exp(z[v] - lse)
				entropy -= p * (z[v] - lse)
				share := -p
				if v == int(target) {
					share = 1 - p
				}
				addScaled(jacobian, slopeOf(z[v], l)*share, m.row(v))
			}
		}
		own[float32](out.LogP)[t] = float32(logp)
		own[float32](out.Entropy)[t] = float32(entropy)
		own[float32](out.LSE)[t] = float32(lse)
		if out.Jacobian != nil {
			store(row(out.Jacobian, m.cols, t), jacobian)
		}
	}
}

// store writes an activation.
func store(dst []float32, src []float64) {
	for i, s := range src {
		dst[i] = float32(s)
	}
}

func (reference) LogProbGradX(dh, dlogp, jacobian kernels.Buffer, H, T int) {
	for t := range T {
		dh, d := row(dh, H, t), float64(own[float32](dlogp)[t])
		for k, j := range row(jacobian, H, t) {
			dh[k] = float32(d * float64(j))
		}
	}
}

func (reference) LogProbGradW(dw, dlogp, h kernels.Buffer, w kernels.Matrix, targets, lse kernels.Buffer,
	l kernels.Logits, T int) {
	m := ownMatrix(w)
	sum := make([]float64, m.rows*m.cols)
	for t := range T {
		target := own[int32](targets)[t]
		if target < 0 {
			continue
		}
		h := row(h, m.cols, t)
		z, _ := scores(m.factors(h), m, l)
		for v := range z {
			share := -math.Exp(z[v] - float64(own[float32](lse)[t]))
			if v == int(target) {
				share++
			}
			share *= float64(own[float32](dlogp)[t]) * slopeOf(z[v], l)
			for k := range h {
				sum[v*m.cols+k] += share * float64(h[k])
			}
		}
	}
	addTo(own[float32](dw), sum)
}
