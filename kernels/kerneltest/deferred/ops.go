package deferred

import "github.com/seed-7879b91d/grpo/kernels"

func (d *backend) Linear(out, x kernels.Cols, w kernels.Matrix, o kernels.LinearOpt, T int) {
	out, x, w, o.Bias = d.cols(out), d.cols(x), d.matrix(w), d.in(o.Bias)
	d.enqueue(func() { d.b.Linear(out, x, w, o, T) })
}

func (d *backend) LinearGradX(dx, dy kernels.Cols, w kernels.Matrix, o kernels.LinearOpt, T int) {
	dx, dy, w = d.cols(dx), d.cols(dy), d.matrix(w)
	d.enqueue(func() { d.b.LinearGradX(dx, dy, w, o, T) })
}

func (d *backend) LinearGradW(dw kernels.Buffer, dy, x kernels.Cols, alpha float32, factors kernels.DType, T int) {
	dw, dy, x = d.in(dw), d.cols(dy), d.cols(x)
	d.enqueue(func() { d.b.LinearGradW(dw, dy, x, alpha, factors, T) })
}

func (d *backend) BiasGrad(db kernels.Buffer, dy kernels.Cols, T int) {
	db, dy = d.in(db), d.cols(dy)
	d.enqueue(func() { d.b.BiasGrad(db, dy, T) })
}

func (d *backend) Embed(out kernels.Buffer, table kernels.Matrix, ids kernels.Buffer, T int) {
	out, table, ids = d.in(out), d.matrix(table), d.in(ids)
	d.enqueue(func() { d.b.Embed(out, table, ids, T) })
}

func (d *backend) EmbedGrad(dTable, dOut, ids kernels.Buffer, V, H, T int) {
	dTable, dOut, ids = d.in(dTable), d.in(dOut), d.in(ids)
	d.enqueue(func() { d.b.EmbedGrad(dTable, dOut, ids, V, H, T) })
}

func (d *backend) RMSNorm(out, x, weight kernels.Buffer, n kernels.Norm, H, T int) {
	out, x, weight = d.in(out), d.in(x), d.in(weight)
	d.enqueue(func() { d.b.RMSNorm(out, x, weight, n, H, T) })
}

func (d *backend) RMSNormGradX(dx, dy, x, weight kernels.Buffer, n kernels.Norm, H, T int) {
	dx, dy, x, weight = d.in(dx), d.in(dy), d.in(x), d.in(weight)
	d.enqueue(func() { d.b.RMSNormGradX(dx, dy, x, weight, n, H, T) })
}

func (d *backend) RMSNormGradW(dw, dy, x kernels.Buffer, n kernels.Norm, H, T int) {
	dw, dy, x = d.in(dw), d.in(dy), d.in(x)
	d.enqueue(func() { d.b.RMSNormGradW(dw, dy, x, n, H, T) })
}

func (d *backend) RopeTable(out, positions, frequencies kernels.Buffer, scale float64, dim, T int) {
	out, positions, frequencies = d.in(out), d.in(positions), d.in(frequencies)
	d.enqueue(func() { d.b.RopeTable(out, positions, frequencies, scale, dim, T) })
}

func (d *backend) Rope(out, x, rope kernels.Buffer, back bool, h kernels.Attn, T int) {
	out, x, rope = d.in(out), d.in(x), d.in(rope)
	d.enqueue(func() { d.b.Rope(out, x, rope, back, h, T) })
}

func (d *backend) QKNormRope(out, qkv, qw, kw, rope kernels.Buffer, eps float32, h kernels.Attn, T int) {
	out, qkv, qw, kw, rope = d.in(out), d.in(qkv), d.in(qw), d.in(kw), d.in(rope)
	d.enqueue(func() { d.b.QKNormRope(out, qkv, qw, kw, rope, eps, h, T) })
}

func (d *backend) QKNormRopeGradX(dqkv, dout, qkv, qw, kw, rope kernels.Buffer, eps float32, h kernels.Heads, T int) {
	dqkv, dout, qkv = d.in(dqkv), d.in(dout), d.in(qkv)
	qw, kw, rope = d.in(qw), d.in(kw), d.in(rope)
	d.enqueue(func() { d.b.QKNormRopeGradX(dqkv, dout, qkv, qw, kw, rope, eps, h, T) })
}

func (d *backend) QKNormRopeGradW(dqw, dkw, dout, qkv, rope kernels.Buffer, eps float32, h kernels.Heads, T int) {
	dqw, dkw, dout, qkv, rope = d.in(dqw), d.in(dkw), d.in(dout), d.in(qkv), d.in(rope)
	d.enqueue(func() { d.b.QKNormRopeGradW(dqw, dkw, dout, qkv, rope, eps, h, T) })
}

func (d *backend) SwiGLU(out, gateUp kernels.Buffer, N, T int) {
	out, gateUp = d.in(out), d.in(gateUp)
	d.enqueue(func() { d.b.SwiGLU(out, gateUp, N, T) })
}

func (d *backend) SwiGLUGrad(dGateUp, dout, gateUp kernels.Buffer, N, T int) {
	dGateUp, dout, gateUp = d.in(dGateUp), d.in(dout), d.in(gateUp)
	d.enqueue(func() { d.b.SwiGLUGrad(dGateUp, dout, gateUp, N, T) })
}

func (d *backend) GeGLU(out, gateUp kernels.Buffer, N, T int) {
	out, gateUp = d.in(out), d.in(gateUp)
	d.enqueue(func() { d.b.GeGLU(out, gateUp, N, T) })
}

func (d *backend) GeGLUGrad(dGateUp, dout, gateUp kernels.Buffer, N, T int) {
	dGateUp, dout, gateUp = d.in(dGateUp), d.in(dout), d.in(gateUp)
	d.enqueue(func() { d.b.GeGLUGrad(dGateUp, dout, gateUp, N, T) })
}

func (d *backend) Scale(out, x kernels.Buffer, by float32, n int) {
	out, x = d.in(out), d.in(x)
	d.enqueue(func() { d.b.Scale(out, x, by, n) })
}

func (d *backend) Add(out, a, b kernels.Buffer, n int) {
	out, a, b = d.in(out), d.in(a), d.in(b)
	d.enqueue(func() { d.b.Add(out, a, b, n) })
}

func (d *backend) Attention(out, lse, qkv kernels.Buffer, s kernels.Spans, a kernels.Attn, kv kernels.DType, T int) {
	out, lse, qkv, s.Starts, s.Parents = d.in(out), d.in(lse), d.in(qkv), d.in(s.Starts), d.in(s.Parents)
	d.enqueue(func() { d.b.Attention(out, lse, qkv, s, a, kv, T) })
}

func (d *backend) AttentionGrad(dqkv, dout, qkv, out, lse kernels.Buffer, s kernels.Spans, a kernels.Attn, kv kernels.DType,
	T int) {
	dqkv, dout, qkv = d.in(dqkv), d.in(dout), d.in(qkv)
	out, lse, s.Starts, s.Parents = d.in(out), d.in(lse), d.in(s.Starts), d.in(s.Parents)
	d.enqueue(func() { d.b.AttentionGrad(dqkv, dout, qkv, out, lse, s, a, kv, T) })
}

func (d *backend) LogProb(out kernels.LogProbOut, h kernels.Buffer, w kernels.Matrix, targets kernels.Buffer,
	l kernels.Logits, T int) {
	out.LogP, out.Entropy, out.LSE, out.Jacobian = d.in(out.LogP), d.in(out.Entropy), d.in(out.LSE), d.in(out.Jacobian)
	h, w, targets = d.in(h), d.matrix(w), d.in(targets)
	d.enqueue(func() { d.b.LogProb(out, h, w, targets, l, T) })
}

func (d *backend) LogProbGradX(dh, dlogp, jacobian kernels.Buffer, H, T int) {
	dh, dlogp, jacobian = d.in(dh), d.in(dlogp), d.in(jacobian)
	d.enqueue(func() { d.b.LogProbGradX(dh, dlogp, jacobian, H, T) })
}

func (d *backend) LogProbGradW(dw, dlogp, h kernels.Buffer, w kernels.Matrix, targets, lse kernels.Buffer,
	l kernels.Logits, T int) {
	dw, dlogp, h, w = d.in(dw), d.in(dlogp), d.in(h), d.matrix(w)
	targets, lse = d.in(targets), d.in(lse)
	d.enqueue(func() { d.b.LogProbGradW(dw, dlogp, h, w, targets, lse, l, T) })
}

func (d *backend) Loss(dlogp, stats kernels.Buffer, in kernels.LossIn, l kernels.Loss, T int) {
	dlogp, stats = d.in(dlogp), d.in(stats)
	in = kernels.LossIn{
		LogP: d.in(in.LogP), Entropy: d.in(in.Entropy), OldLogP: d.in(in.OldLogP),
		Advantage: d.in(in.Advantage), Weight: d.in(in.Weight),
	}
	d.enqueue(func() { d.b.Loss(dlogp, stats, in, l, T) })
}

func (d *backend) SumSquares(out, x kernels.Buffer, n int) {
	out, x = d.in(out), d.in(x)
	d.enqueue(func() { d.b.SumSquares(out, x, n) })
}

func (d *backend) Adam(p, m, v, g kernels.Buffer, a kernels.AdamStep, n int) {
	p, m, v, g = d.in(p), d.in(m), d.in(v), d.in(g)
	d.enqueue(func() { d.b.Adam(p, m, v, g, a, n) })
}
