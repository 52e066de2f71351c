package kernels

// CheckLinear checks LinearOps.Linear.
func CheckLinear(out, x Cols, w Matrix, o LinearOpt, T int) {
	c := checker("Linear")
	c.size("T", T, 0)
	c.present("w", w)
	c.cols("out", out, w.Rows(), T)
	c.cols("x", x, w.Cols(), T)
	if o.Bias != nil {
		c.buffer("bias", o.Bias, F32, w.Rows())
	}
}

// CheckLinearGradX checks LinearOps.LinearGradX.
func CheckLinearGradX(dx, dy Cols, w Matrix, o LinearOpt, T int) {
	c := checker("LinearGradX")
	c.size("T", T, 0)
	c.present("w", w)
	c.cols("dx", dx, w.Cols(), T)
	c.cols("dy", dy, w.Rows(), T)
	if o.Bias != nil {
		c.fail("a gradient to x has no bias")
	}
}

// CheckLinearGradW checks LinearOps.LinearGradW.
func CheckLinearGradW(dw Buffer, dy, x Cols, T int) {
	c := checker("LinearGradW")
	c.size("T", T, 0)
	c.cols("dy", dy, dy.N, T)
	c.cols("x", x, x.N, T)
	c.buffer("dw", dw, F32, dy.N*x.N)
}

// CheckBiasGrad checks LinearOps.BiasGrad.
func CheckBiasGrad(db Buffer, dy Cols, T int) {
	c := checker("BiasGrad")
	c.size("T", T, 0)
	c.cols("dy", dy, dy.N, T)
	c.buffer("db", db, F32, dy.N)
}

// CheckEmbed checks PointOps.Embed.
func CheckEmbed(out Buffer, table Matrix, ids Buffer, T int) {
	c := checker("Embed")
	c.size("T", T, 0)
	c.present("table", table)
	c.buffer("out", out, F32, T*table.Cols())
	c.buffer("ids", ids, I32, T)
}

// CheckEmbedGrad checks PointOps.EmbedGrad.
func CheckEmbedGrad(dTable, dOut, ids Buffer, V, H, T int) {
	c := checker("EmbedGrad")
	c.size("T", T, 0)
	c.size("V", V, 1)
	c.size("H", H, 1)
	c.buffer("dTable", dTable, F32, V*H)
	c.buffer("dOut", dOut, F32, T*H)
	c.buffer("ids", ids, I32, T)
}

// CheckRMSNorm checks PointOps.RMSNorm.
func CheckRMSNorm(out, x, weight Buffer, H, T int) {
	c := checker("RMSNorm")
	c.size("T", T, 0)
	c.size("H", H, 1)
	c.buffer("out", out, F32, T*H)
	c.buffer("x", x, F32, T*H)
	c.buffer("weight", weight, F32, H)
}

// CheckRMSNormGradX checks PointOps.RMSNormGradX.
func CheckRMSNormGradX(dx, dy, x, weight Buffer, H, T int) {
	c := checker("RMSNormGradX")
	c.size("T", T, 0)
	c.size("H", H, 1)
	c.buffer("dx", dx, F32, T*H)
	c.buffer("dy", dy, F32, T*H)
	c.buffer("x", x, F32, T*H)
	c.buffer("weight", weight, F32, H)
}

// CheckRMSNormGradW checks PointOps.RMSNormGradW.
func CheckRMSNormGradW(dw, dy, x Buffer, H, T int) {
	c := checker("RMSNormGradW")
	c.size("T", T, 0)
	c.size("H", H, 1)
	c.buffer("dw", dw, F32, H)
	c.buffer("dy", dy, F32, T*H)
	c.buffer("x", x, F32, T*H)
}

// CheckRopeTable checks PointOps.RopeTable.
func CheckRopeTable(out, positions Buffer, dim, T int) {
	c := checker("RopeTable")
	c.size("T", T, 0)
	if dim < 2 || dim%2 != 0 {
		c.fail("dim is %d, expected an even number", dim)
	}
	c.buffer("out", out, F32, T*dim)
	c.buffer("positions", positions, I32, T)
}

// CheckQKNormRope checks PointOps.QKNormRope.
func CheckQKNormRope(out, qkv, qw, kw, rope Buffer, h Heads, T int) {
	c := checker("QKNormRope")
	c.size("T", T, 0)
	c.heads(h)
	c.buffer("out", out, F32, T*h.Width())
	c.buffer("qkv", qkv, F32, T*h.Width())
	c.buffer("qw", qw, F32, h.Dim)
	c.buffer("kw", kw, F32, h.Dim)
	c.buffer("rope", rope, F32, T*h.Dim)
}

// CheckQKNormRopeGradX checks PointOps.QKNormRopeGradX.
func CheckQKNormRopeGradX(dqkv, dout, qkv, qw, kw, rope Buffer, h Heads, T int) {
	c := checker("QKNormRopeGradX")
	c.size("T", T, 0)
	c.heads(h)
	c.buffer("dqkv", dqkv, F32, T*h.Width())
	c.buffer("dout", dout, F32, T*h.Width())
	c.buffer("qkv", qkv, F32, T*h.Width())
	c.buffer("qw", qw, F32, h.Dim)
	c.buffer("kw", kw, F32, h.Dim)
	c.buffer("rope", rope, F32, T*h.Dim)
}

// CheckQKNormRopeGradW checks PointOps.QKNormRopeGradW.
func CheckQKNormRopeGradW(dqw, dkw, dout, qkv, rope Buffer, h Heads, T int) {
	c := checker("QKNormRopeGradW")
	c.size("T", T, 0)
	c.heads(h)
	c.buffer("dqw", dqw, F32, h.Dim)
	c.buffer("dkw", dkw, F32, h.Dim)
	c.buffer("dout", dout, F32, T*h.Width())
	c.buffer("qkv", qkv, F32, T*h.Width())
	c.buffer("rope", rope, F32, T*h.Dim)
}

// CheckSwiGLU checks PointOps.SwiGLU.
func CheckSwiGLU(out, gateUp Buffer, N, T int) {
	c := checker("SwiGLU")
	c.size("T", T, 0)
	c.size("N", N, 1)
	c.buffer("out", out, F32, T*N)
	c.buffer("gateUp", gateUp, F32, T*2*N)
}

// CheckSwiGLUGrad checks PointOps.SwiGLUGrad.
func CheckSwiGLUGrad(dGateUp, dout, gateUp Buffer, N, T int) {
	c := checker("SwiGLUGrad")
	c.size("T", T, 0)
	c.size("N", N, 1)
	c.buffer("dGateUp", dGateUp, F32, T*2*N)
	c.buffer("dout", dout, F32, T*N)
	c.buffer("gateUp", gateUp, F32, T*2*N)
}

// CheckAdd checks PointOps.Add.
func CheckAdd(out, a, b Buffer, n int) {
	c := checker("Add")
	c.size("n", n, 0)
	c.buffer("out", out, F32, n)
	c.buffer("a", a, F32, n)
	c.buffer("b", b, F32, n)
}

// CheckAttention checks AttentionOps.Attention.
func CheckAttention(out, lse, qkv Buffer, s Spans, h Heads, T int) {
	c := checker("Attention")
	c.spans(s, h, T)
	c.buffer("out", out, F32, T*h.OutWidth())
	c.buffer("lse", lse, F32, T*h.Q)
	c.buffer("qkv", qkv, F32, T*h.Width())
}

// CheckAttentionGrad checks AttentionOps.AttentionGrad.
func CheckAttentionGrad(dqkv, dout, qkv, out, lse Buffer, s Spans, h Heads, T int) {
	c := checker("AttentionGrad")
	c.spans(s, h, T)
	c.buffer("dqkv", dqkv, F32, T*h.Width())
	c.buffer("dout", dout, F32, T*h.OutWidth())
	c.buffer("qkv", qkv, F32, T*h.Width())
	c.buffer("out", out, F32, T*h.OutWidth())
	c.buffer("lse", lse, F32, T*h.Q)
}

func (c checker) spans(s Spans, h Heads, T int) {
	c.size("T", T, 0)
	c.heads(h)
	c.size("the number of sequences", s.N, 0)
	c.buffer("starts", s.Starts, I32, s.N+1)
}

// CheckLogProb checks HeadOps.LogProb.
func CheckLogProb(out LogProbOut, h Buffer, w Matrix, targets Buffer, T int) {
	c := checker("LogProb")
	c.size("T", T, 0)
	c.present("w", w)
	c.buffer("logp", out.LogP, F32, T)
	c.buffer("entropy", out.Entropy, F32, T)
	c.buffer("lse", out.LSE, F32, T)
	if out.Jacobian != nil {
		c.buffer("jacobian", out.Jacobian, F32, T*w.Cols())
	}
	c.buffer("h", h, F32, T*w.Cols())
	c.buffer("targets", targets, I32, T)
}

// CheckLogProbGradX checks HeadOps.LogProbGradX.
func CheckLogProbGradX(dh, dlogp, jacobian Buffer, H, T int) {
	c := checker("LogProbGradX")
	c.size("T", T, 0)
	c.size("H", H, 1)
	c.buffer("dh", dh, F32, T*H)
	c.buffer("dlogp", dlogp, F32, T)
	c.buffer("jacobian", jacobian, F32, T*H)
}

// CheckLogProbGradW checks HeadOps.LogProbGradW.
func CheckLogProbGradW(dw, dlogp, h Buffer, w Matrix, targets, lse Buffer, T int) {
	c := checker("LogProbGradW")
	c.size("T", T, 0)
	c.present("w", w)
	c.buffer("dw", dw, F32, w.Rows()*w.Cols())
	c.buffer("dlogp", dlogp, F32, T)
	c.buffer("h", h, F32, T*w.Cols())
	c.buffer("targets", targets, I32, T)
	c.buffer("lse", lse, F32, T)
}

// CheckLoss checks TrainOps.Loss.
func CheckLoss(dlogp, stats Buffer, in LossIn, l Loss, T int) {
	c := checker("Loss")
	c.size("T", T, 0)
	if int(l.Kind) >= len(lossNames) {
		c.fail("kind %d is not known", l.Kind)
	}
	c.buffer("dlogp", dlogp, F32, T)
	c.buffer("stats", stats, F64, NumStats)
	c.buffer("logp", in.LogP, F32, T)
	c.buffer("entropy", in.Entropy, F32, T)
	c.buffer("old logp", in.OldLogP, F32, T)
	c.buffer("advantage", in.Advantage, F32, T)
	c.buffer("weight", in.Weight, F32, T)
}

// CheckSumSquares checks TrainOps.SumSquares.
func CheckSumSquares(out, x Buffer, n int) {
	c := checker("SumSquares")
	c.size("n", n, 0)
	c.buffer("out", out, F64, 1)
	c.buffer("x", x, F32, n)
}

// CheckAdam checks TrainOps.Adam.
func CheckAdam(p, m, v, g Buffer, n int) {
	c := checker("Adam")
	c.size("n", n, 0)
	c.buffer("p", p, F32, n)
	c.buffer("m", m, F32, n)
	c.buffer("v", v, F32, n)
	c.buffer("g", g, F32, n)
}
