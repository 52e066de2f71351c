package oracle

import (
	"math"

	"github.com/seed-7879b91d/grpo/kernels"
)

func (reference) Embed(out kernels.Buffer, table kernels.Matrix, ids kernels.Buffer, T int) {
	m := ownMatrix(table)
	for t := range T {
		copy(row(out, m.cols, t), m.row(int(own[int32](ids)[t])))
	}
}

func (reference) EmbedGrad(dTable, dOut, ids kernels.Buffer, V, H, T int) {
	for t := range T {
		dw := row(dTable, H, int(own[int32](ids)[t]))
		for i, d := range row(dOut, H, t) {
			dw[i] += d
		}
	}
}

// inverseRMS is 1 / sqrt(mean(x²) + eps).
func inverseRMS(x []float32, eps float32) float64 {
	return 1 / math.Sqrt(dot(x, x)/float64(len(x))+float64(eps))
}

// normGrad is the gradient to x of (offset + w)·x/rms(x), given the gradient dy of the result.
func normGrad(dy []float64, x, w []float32, n kernels.Norm) []float64 {
	r, offset := inverseRMS(x, n.Eps), float64(n.Offset)
	var along float64
	for i := range x {
		along += dy[i] * (offset + float64(w[i])) * float64(x[i])
	}
	dx := make([]float64, len(x))
	for i := range x {
		dx[i] = r*dy[i]*(offset+float64(w[i])) - r*r*r*along/float64(len(x))*float64(x[i])
	}
	return dx
}

func (reference) RMSNorm(out, x, weight kernels.Buffer, n kernels.Norm, H, T int) {
	for t := range T {
		out, x := row(out, H, t), row(x, H, t)
		r := inverseRMS(x, n.Eps)
		for i, w := range own[float32](weight)[:H] {
			out[i] = float32((float64(n.Offset) + float64(w)) * float64(x[i]) * r)
		}
	}
}

func (reference) RMSNormGradX(dx, dy, x, weight kernels.Buffer, n kernels.Norm, H, T int) {
	for t := range T {
		store(row(dx, H, t), normGrad(widen(row(dy, H, t)), row(x, H, t), own[float32](weight), n))
	}
}

func widen(x []float32) []float64 {
	y := make([]float64, len(x))
	for i := range x {
		y[i] = float64(x[i])
	}
	return y
}

func (reference) RMSNormGradW(dw, dy, x kernels.Buffer, n kernels.Norm, H, T int) {
	sum := make([]float64, H)
	for t := range T {
		dy, x := row(dy, H, t), row(x, H, t)
		r := inverseRMS(x, n.Eps)
		for i := range sum {
			sum[i] += float64(dy[i]) * float64(x[i]) * r
		}
	}
	addTo(own[float32](dw), sum)
}

func (reference) RopeTable(out, positions, frequencies kernels.Buffer, scale float64, dim, T int) {
	for t := range T {
		out := row(out, dim, t)
		for i := range dim / 2 {
			angle := float64(own[int32](positions)[t]) * own[float64](frequencies)[i]
			out[i], out[dim/2+i] = float32(scale*math.Cos(angle)), float32(scale*math.Sin(angle))
		}
	}
}

func (reference) Rope(out, x, rope kernels.Buffer, back bool, h kernels.Attn, T int) {
	direction := 1.0
	if back {
		direction = -1
	}
	for t := range T {
		out, x, rope := row(out, h.Width(), t), row(x, h.Width(), t), row(rope, h.Dim, t)
		for head := range h.Q + h.KV {
			from, to := head*h.Dim, (head+1)*h.Dim
			store(out[from:to], rotate(widen(x[from:to]), rope, direction))
		}
		copy(out[(h.Q+h.KV)*h.Dim:], x[(h.Q+h.KV)*h.Dim:])
	}
}

// rotate turns the pairs (x[i], x[i+dim/2]) by the angles of a row of the rope table; a direction of
// −1 turns them back.
func rotate(x []float64, rope []float32, direction float64) []float64 {
	half := len(x) / 2
	y := make([]float64, len(x))
	for i := range half {
		cos, sin := float64(rope[i]), direction*float64(rope[half+i])
		y[i] = x[i]*cos - x[half+i]*sin
		y[half+i] = x[half+i]*cos + x[i]*sin
	}
	return y
}

// eachHead calls f for all heads of a row: first and last element, and the weight of its norm, which
// value heads do not have.
func eachHead(h kernels.Heads, qw, kw []float32, f func(from, to int, weight []float32)) {
	for i := range h.Q + 2*h.KV {
		var w []float32
		switch {
		case i < h.Q:
			w = qw[:h.Dim]
		case i < h.Q+h.KV:
			w = kw[:h.Dim]
		}
		f(i*h.Dim, (i+1)*h.Dim, w)
	}
}

func (reference) QKNormRope(out, qkv, qw, kw, rope kernels.Buffer, eps float32, h kernels.Attn, T int) {
	for t := range T {
		out, qkv, rope := row(out, h.Width(), t), row(qkv, h.Width(), t), row(rope, h.Dim, t)
		eachHead(h.Heads, own[float32](qw), own[float32](kw), func(from, to int, w []float32) {
			x := qkv[from:to]
			if w == nil {
				copy(out[from:to], x)
				return
			}
			y, r := make([]float64, h.Dim), inverseRMS(x, eps)
			for i := range y {
				y[i] = float64(w[i]) * float64(x[i]) * r
			}
			store(out[from:to], rotate(y, rope, 1))
		})
	}
}

func (reference) QKNormRopeGradX(dqkv, dout, qkv, qw, kw, rope kernels.Buffer, eps float32, h kernels.Heads, T int) {
	for t := range T {
		dx, dy := row(dqkv, h.Width(), t), row(dout, h.Width(), t)
		x, rope := row(qkv, h.Width(), t), row(rope, h.Dim, t)
		eachHead(h, own[float32](qw), own[float32](kw), func(from, to int, w []float32) {
			if w == nil {
				copy(dx[from:to], dy[from:to])
				return
			}
			dn := rotate(widen(dy[from:to]), rope, -1)
			store(dx[from:to], normGrad(dn, x[from:to], w, kernels.Norm{Eps: eps}))
		})
	}
}

func (reference) QKNormRopeGradW(dqw, dkw, dout, qkv, rope kernels.Buffer, eps float32, h kernels.Heads, T int) {
	sumQ, sumK := make([]float64, h.Dim), make([]float64, h.Dim)
	for t := range T {
		dy, qkv, rope := row(dout, h.Width(), t), row(qkv, h.Width(), t), row(rope, h.Dim, t)
		for head := range h.Q + h.KV {
			sum := sumQ
			if head >= h.Q {
				sum = sumK
			}
			from, to := head*h.Dim, (head+1)*h.Dim
			dn, x := rotate(widen(dy[from:to]), rope, -1), qkv[from:to]
			r := inverseRMS(x, eps)
			for i := range sum {
				sum[i] += dn[i] * float64(x[i]) * r
			}
		}
	}
	addTo(own[float32](dqw), sumQ)
	addTo(own[float32](dkw), sumK)
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func (reference) SwiGLU(out, gateUp kernels.Buffer, N, T int) {
	for t := range T {
		out, gateUp := row(out, N, t), row(gateUp, 2*N, t)
		for i := range out {
			g, u := float64(gateUp[i]), float64(gateUp[N+i])
			out[i] = float32(g * sigmoid(g) * u)
		}
	}
}

func (reference) SwiGLUGrad(dGateUp, dout, gateUp kernels.Buffer, N, T int) {
	for t := range T {
		dx, dy, x := row(dGateUp, 2*N, t), row(dout, N, t), row(gateUp, 2*N, t)
		for i := range dy {
			d, g, u := float64(dy[i]), float64(x[i]), float64(x[N+i])
			s := sigmoid(g)
			dx[i] = float32(d * u * s * (1 + g*(1-s)))
			dx[N+i] = float32(d * g * s)
		}
	}
}

// gelu is the tanh form, and its slope.
func gelu(x float64) (y, slope float64) {
	c := math.Sqrt(2 / math.Pi)
	t := math.Tanh(c * (x + 0.044715*x*x*x))
	return x / 2 * (1 + t), (1+t)/2 + x/2*(1-t*t)*c*(1+3*0.044715*x*x)
}

func (reference) GeGLU(out, gateUp kernels.Buffer, N, T int) {
	for t := range T {
		out, gateUp := row(out, N, t), row(gateUp, 2*N, t)
		for i := range out {
			y, _ := gelu(float64(gateUp[i]))
			out[i] = float32(y * float64(gateUp[N+i]))
		}
	}
}

func (reference) GeGLUGrad(dGateUp, dout, gateUp kernels.Buffer, N, T int) {
	for t := range T {
		dx, dy, x := row(dGateUp, 2*N, t), row(dout, N, t), row(gateUp, 2*N, t)
		for i := range dy {
			y, slope := gelu(float64(x[i]))
			dx[i] = float32(float64(dy[i]) * float64(x[N+i]) * slope)
			dx[N+i] = float32(float64(dy[i]) * y)
		}
	}
}

func (reference) Scale(out, x kernels.Buffer, by float32, n int) {
	for i := range n {
		own[float32](out)[i] = by * own[float32](x)[i]
	}
}

func (reference) Add(out, a, b kernels.Buffer, n int) {
	for i := range n {
		own[float32](out)[i] = own[float32](a)[i] + own[float32](b)[i]
	}
}
