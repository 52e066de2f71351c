package kernels

// The operations on rows, attention over them, and training.

func (k *checked) Embed(out Buffer, table Matrix, ids Buffer, T int) {
	c := k.call("Embed")
	c.size("T", T, 0)
	c.matrix("table", table)
	c.f32("out", out, T*table.Cols())
	c.i32("ids", ids, T)
	k.b.Embed(out, table, ids, T)
}

func (k *checked) EmbedGrad(dTable, dOut, ids Buffer, V, H, T int) {
	c := k.call("EmbedGrad")
	c.size("V", V, 1)
	c.rows(T, "H", H)
	c.f32("dTable", dTable, V*H)
	c.f32("dOut", dOut, T*H)
	c.i32("ids", ids, T)
	k.b.EmbedGrad(dTable, dOut, ids, V, H, T)
}

func (k *checked) RMSNorm(out, x, weight Buffer, n Norm, H, T int) {
	c := k.call("RMSNorm")
	c.rows(T, "H", H)
	k.output(c, "out", out, H, T)
	k.activation(c, "x", x, T*H)
	c.f32("weight", weight, H)
	k.b.RMSNorm(out, x, weight, n, H, T)
}

func (k *checked) RMSNormGradX(dx, dy, x, weight Buffer, n Norm, H, T int) {
	c := k.call("RMSNormGradX")
	c.rows(T, "H", H)
	c.f32("dx", dx, T*H)
	c.f32("dy", dy, T*H)
	k.activation(c, "x", x, T*H)
	c.f32("weight", weight, H)
	k.b.RMSNormGradX(dx, dy, x, weight, n, H, T)
}

func (k *checked) RMSNormGradW(dw, dy, x Buffer, n Norm, H, T int) {
	c := k.call("RMSNormGradW")
	c.rows(T, "H", H)
	c.f32("dw", dw, H)
	c.f32("dy", dy, T*H)
	c.f32("x", x, T*H)
	k.b.RMSNormGradW(dw, dy, x, n, H, T)
}

func (k *checked) RopeTable(out, positions, frequencies Buffer, scale float64, dim, T int) {
	c := k.call("RopeTable")
	c.size("T", T, 0)
	if dim < 2 || dim%2 != 0 {
		c.fail("dim is %d, expected an even number", dim)
	}
	c.f32("out", out, T*dim)
	c.i32("positions", positions, T)
	c.f64("frequencies", frequencies, dim/2)
	k.b.RopeTable(out, positions, frequencies, scale, dim, T)
}

func (k *checked) Rope(out, x, rope Buffer, back bool, h Attn, T int) {
	c := k.call("Rope")
	c.size("T", T, 0)
	c.heads(h.Heads)
	k.output(c, "out", out, h.Width(), T)
	k.activation(c, "x", x, T*h.Width())
	c.f32("rope", rope, T*h.Dim)
	k.b.Rope(out, x, rope, back, h, T)
}

func (k *checked) QKNormRope(out, qkv, qw, kw, rope Buffer, eps float32, h Attn, T int) {
	c := k.call("QKNormRope")
	c.size("T", T, 0)
	c.heads(h.Heads)
	k.output(c, "out", out, h.Width(), T)
	k.activation(c, "qkv", qkv, T*h.Width())
	c.f32("qw", qw, h.Dim)
	c.f32("kw", kw, h.Dim)
	c.f32("rope", rope, T*h.Dim)
	k.b.QKNormRope(out, qkv, qw, kw, rope, eps, h, T)
}

func (k *checked) QKNormRopeGradX(dqkv, dout, qkv, qw, kw, rope Buffer, eps float32, h Heads, T int) {
	c := k.call("QKNormRopeGradX")
	c.size("T", T, 0)
	c.heads(h)
	k.output(c, "dqkv", dqkv, h.Width(), T)
	c.f32("dout", dout, T*h.Width())
	k.activation(c, "qkv", qkv, T*h.Width())
	c.f32("qw", qw, h.Dim)
	c.f32("kw", kw, h.Dim)
	c.f32("rope", rope, T*h.Dim)
	k.b.QKNormRopeGradX(dqkv, dout, qkv, qw, kw, rope, eps, h, T)
}

func (k *checked) QKNormRopeGradW(dqw, dkw, dout, qkv, rope Buffer, eps float32, h Heads, T int) {
	c := k.call("QKNormRopeGradW")
	c.size("T", T, 0)
	c.heads(h)
	c.f32("dqw", dqw, h.Dim)
	c.f32("dkw", dkw, h.Dim)
	c.f32("dout", dout, T*h.Width())
	c.f32("qkv", qkv, T*h.Width())
	c.f32("rope", rope, T*h.Dim)
	k.b.QKNormRopeGradW(dqw, dkw, dout, qkv, rope, eps, h, T)
}

func (k *checked) SwiGLU(out, gateUp Buffer, N, T int) {
	c := k.call("SwiGLU")
	c.rows(T, "N", N)
	k.output(c, "out", out, N, T)
	k.activation(c, "gateUp", gateUp, T*2*N)
	k.b.SwiGLU(out, gateUp, N, T)
}

func (k *checked) SwiGLUGrad(dGateUp, dout, gateUp Buffer, N, T int) {
	c := k.call("SwiGLUGrad")
	c.rows(T, "N", N)
	k.output(c, "dGateUp", dGateUp, 2*N, T)
	c.f32("dout", dout, T*N)
	k.activation(c, "gateUp", gateUp, T*2*N)
	k.b.SwiGLUGrad(dGateUp, dout, gateUp, N, T)
}

func (k *checked) GeGLU(out, gateUp Buffer, N, T int) {
	c := k.call("GeGLU")
	c.rows(T, "N", N)
	k.output(c, "out", out, N, T)
	k.activation(c, "gateUp", gateUp, T*2*N)
	k.b.GeGLU(out, gateUp, N, T)
}

func (k *checked) GeGLUGrad(dGateUp, dout, gateUp Buffer, N, T int) {
	c := k.call("GeGLUGrad")
	c.rows(T, "N", N)
	k.output(c, "dGateUp", dGateUp, 2*N, T)
	c.f32("dout", dout, T*N)
	k.activation(c, "gateUp", gateUp, T*2*N)
	k.b.GeGLUGrad(dGateUp, dout, gateUp, N, T)
}

func (k *checked) Scale(out, x Buffer, by float32, n int) {
	c := k.call("Scale")
	c.size("n", n, 0)
	c.f32("out", out, n)
	c.f32("x", x, n)
	k.b.Scale(out, x, by, n)
}

func (k *checked) Add(out, a, b Buffer, n int) {
	c := k.call("Add")
	c.size("n", n, 0)
	c.f32("out", out, n)
	c.f32("a", a, n)
	c.f32("b", b, n)
	k.b.Add(out, a, b, n)
}

func (k *checked) Attention(out, lse, qkv Buffer, s Spans, a Attn, kv DType, T int) {
	c := k.call("Attention")
	c.spans(s, a, T)
	c.cached(kv)
	c.f32("out", out, T*a.OutWidth())
	c.f32("lse", lse, T*a.Q)
	k.output(c, "qkv", qkv, a.Width(), T)
	k.b.Attention(out, lse, qkv, s, a, kv, T)
}

func (k *checked) AttentionGrad(dqkv, dout, qkv, out, lse Buffer, s Spans, a Attn, kv DType, T int) {
	c := k.call("AttentionGrad")
	c.spans(s, a, T)
	c.cached(kv)
	c.f32("dqkv", dqkv, T*a.Width())
	c.f32("dout", dout, T*a.OutWidth())
	k.output(c, "qkv", qkv, a.Width(), T)
	c.f32("out", out, T*a.OutWidth())
	c.f32("lse", lse, T*a.Q)
	k.b.AttentionGrad(dqkv, dout, qkv, out, lse, s, a, kv, T)
}

func (k *checked) Loss(dlogp, stats Buffer, in LossIn, l Loss, T int) {
	c := k.call("Loss")
	c.size("T", T, 0)
	if int(l.Kind) >= len(lossNames) {
		c.fail("kind %d is not known", l.Kind)
	}
	c.f32("dlogp", dlogp, T)
	c.f64("stats", stats, NumStats)
	c.f32("logp", in.LogP, T)
	c.f32("entropy", in.Entropy, T)
	c.f32("old logp", in.OldLogP, T)
	c.f32("advantage", in.Advantage, T)
	c.f32("weight", in.Weight, T)
	k.b.Loss(dlogp, stats, in, l, T)
}

func (k *checked) SumSquares(out, x Buffer, n int) {
	c := k.call("SumSquares")
	c.size("n", n, 0)
	c.f64("out", out, 1)
	c.f32("x", x, n)
	k.b.SumSquares(out, x, n)
}

func (k *checked) Adam(p, m, v, g Buffer, a AdamStep, n int) {
	c := k.call("Adam")
	c.size("n", n, 0)
	c.f32("p", p, n)
	c.f32("m", m, n)
	c.f32("v", v, n)
	c.f32("g", g, n)
	k.b.Adam(p, m, v, g, a, n)
}
