package kernels

// The operations that read or make a weight: linear layers and the output head.

func (k *checked) Linear(out, x Cols, w Matrix, o LinearOpt, T int) {
	c := k.call("Linear")
	c.size("T", T, 0)
	c.matrix("w", w)
	c.cols("out", out, w.Rows(), T)
	c.multiplied(k.b, "x", x, w.Cols(), T)
	if o.Bias != nil {
		c.f32("bias", o.Bias, w.Rows())
	}
	k.b.Linear(out, x, w, o, T)
}

func (k *checked) LinearGradX(dx, dy Cols, w Matrix, o LinearOpt, T int) {
	c := k.call("LinearGradX")
	c.size("T", T, 0)
	c.matrix("w", w)
	c.cols("dx", dx, w.Cols(), T)
	c.multiplied(k.b, "dy", dy, w.Rows(), T)
	if o.Bias != nil {
		c.fail("a gradient to x has no bias")
	}
	k.b.LinearGradX(dx, dy, w, o, T)
}

func (k *checked) LinearGradW(dw Buffer, dy, x Cols, alpha float32, factors DType, T int) {
	c := k.call("LinearGradW")
	c.size("T", T, 0)
	c.multiplied(k.b, "dy", dy, dy.N, T)
	c.multiplied(k.b, "x", x, x.N, T)
	c.f32("dw", dw, dy.N*x.N)
	if factors != F32 && factors != BF16 {
		c.fail("factors of %v, expected f32 or bf16", factors)
	}
	k.b.LinearGradW(dw, dy, x, alpha, factors, T)
}

func (k *checked) BiasGrad(db Buffer, dy Cols, T int) {
	c := k.call("BiasGrad")
	c.size("T", T, 0)
	c.cols("dy", dy, dy.N, T)
	c.f32("db", db, dy.N)
	k.b.BiasGrad(db, dy, T)
}

func (k *checked) LogProb(out LogProbOut, h Buffer, w Matrix, targets Buffer, l Logits, T int) {
	c := k.call("LogProb")
	c.size("T", T, 0)
	c.cap(l.Cap)
	c.matrix("w", w)
	c.f32("logp", out.LogP, T)
	c.f32("entropy", out.Entropy, T)
	c.f32("lse", out.LSE, T)
	if out.Jacobian != nil {
		c.f32("jacobian", out.Jacobian, T*w.Cols())
	}
	c.f32("h", h, T*w.Cols())
	c.i32("targets", targets, T)
	k.b.LogProb(out, h, w, targets, l, T)
}

func (k *checked) LogProbGradX(dh, dlogp, jacobian Buffer, H, T int) {
	c := k.call("LogProbGradX")
	c.rows(T, "H", H)
	c.f32("dh", dh, T*H)
	c.f32("dlogp", dlogp, T)
	c.f32("jacobian", jacobian, T*H)
	k.b.LogProbGradX(dh, dlogp, jacobian, H, T)
}

func (k *checked) LogProbGradW(dw, dlogp, h Buffer, w Matrix, targets, lse Buffer, l Logits, T int) {
	c := k.call("LogProbGradW")
	c.size("T", T, 0)
	c.cap(l.Cap)
	c.matrix("w", w)
	c.f32("dw", dw, w.Rows()*w.Cols())
	c.f32("dlogp", dlogp, T)
	c.f32("h", h, T*w.Cols())
	c.i32("targets", targets, T)
	c.f32("lse", lse, T)
	k.b.LogProbGradW(dw, dlogp, h, w, targets, lse, l, T)
}
