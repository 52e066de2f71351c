package misuse

import "github.com/seed-7879b91d/grpo/kernels"

// The sizes of all calls: T rows, matrices of n × k, and heads with rows of this width.
const T, n, k, width = 3, 4, 6, 8

var heads = kernels.Heads{Q: 2, KV: 1, Dim: 2}

// calls has a correct call of each operation, whose operands can be made wrong one at a time, and are named as in the messages.
var calls = map[string]func(c *call){
	"Alloc":     func(c *call) { _, _ = c.Alloc(kernels.F32, c.size("n", 1, 0)) },
	"NewMatrix": func(c *call) { _, _ = c.NewMatrix(kernels.F32, c.size("rows", 1, 1), c.size("cols", 1, 1)) },
	"Upload":    func(c *call) { c.Upload(c.floats("dst", 3), []float32{1, 2, 3}) },
	"Fetch":     func(c *call) { c.Fetch(make([]float64, 3), c.doubles("src", 3)) },
	"Download":  func(c *call) { _ = c.Download(make([]float64, 3), c.doubles("src", 3)) },
	"Copy":      func(c *call) { c.Copy(c.ints("dst", 1, 2), c.zeros(kernels.I32, 2)) },
	"Pack":      func(c *call) { c.Pack(c.weight("m", kernels.F32), 0, c.buffer("src", kernels.F32, 0, k)) },
	"Compress":  func(c *call) { _ = c.Compress(c.weight("m", kernels.BF16)) },
	"Unpack":    func(c *call) { c.Unpack(c.floats("dst", n*k), c.weight("m", kernels.BF16)) },
	"Linear": func(c *call) {
		o := kernels.LinearOpt{Alpha: 1, Bias: c.optional("bias", kernels.F32, n, n)}
		c.Linear(c.cols("out", n), c.cols("x", k), c.weight("w", kernels.BF16), o, c.size("T", T, 0))
	},
	"LinearGradX": func(c *call) {
		c.LinearGradX(c.cols("dx", k), c.cols("dy", n), c.weight("w", kernels.BF16), kernels.LinearOpt{Alpha: 1}, c.size("T", T, 0))
	},
	"LinearGradW": func(c *call) {
		c.LinearGradW(c.floats("dw", n*k), c.cols("dy", n), c.cols("x", k), 1, kernels.F32, c.size("T", T, 0))
	},
	"BiasGrad": func(c *call) { c.BiasGrad(c.floats("db", n), c.cols("dy", n), c.size("T", T, 0)) },
	"Embed": func(c *call) {
		c.Embed(c.floats("out", T*k), c.weight("table", kernels.BF16), c.ints("ids", 0, 1, 3), c.size("T", T, 0))
	},
	"EmbedGrad": func(c *call) {
		c.EmbedGrad(c.floats("dTable", n*k), c.floats("dOut", T*k), c.ints("ids", 0, 1, 3), c.size("V", n, 1), c.size("H", k, 1),
			c.size("T", T, 0))
	},
	"RMSNorm": func(c *call) {
		c.RMSNorm(c.floats("out", T*k), c.floats("x", T*k), c.floats("weight", k), kernels.Norm{Eps: 1}, c.size("H", k, 1), c.size("T", T, 0))
	},
	"RMSNormGradX": func(c *call) {
		c.RMSNormGradX(c.floats("dx", T*k), c.floats("dy", T*k), c.floats("x", T*k), c.floats("weight", k), kernels.Norm{Eps: 1},
			c.size("H", k, 1),
			c.size("T", T, 0))
	},
	"RMSNormGradW": func(c *call) {
		c.RMSNormGradW(c.floats("dw", k), c.floats("dy", T*k), c.floats("x", T*k), kernels.Norm{Eps: 1}, c.size("H", k, 1), c.size("T", T, 0))
	},
	"RopeTable": func(c *call) {
		c.RopeTable(c.floats("out", T*2), c.ints("positions", 0, 1, 2), c.doubles("frequencies", 1), 1, 2, c.size("T", T, 0))
	},
	"Rope": func(c *call) {
		c.Rope(c.floats("out", T*width), c.floats("x", T*width), c.floats("rope", T*2), false, kernels.Attn{Heads: c.heads()}, c.size("T", T, 0))
	},
	"QKNormRope": func(c *call) {
		c.QKNormRope(c.floats("out", T*width), c.floats("qkv", T*width), c.floats("qw", 2), c.floats("kw", 2), c.floats("rope", T*2), 1,
			kernels.Attn{Heads: c.heads()}, c.size("T", T, 0))
	},
	"QKNormRopeGradX": func(c *call) {
		c.QKNormRopeGradX(c.floats("dqkv", T*width), c.floats("dout", T*width), c.floats("qkv", T*width), c.floats("qw", 2),
			c.floats("kw", 2), c.floats("rope", T*2), 1, c.heads(), c.size("T", T, 0))
	},
	"QKNormRopeGradW": func(c *call) {
		c.QKNormRopeGradW(c.floats("dqw", 2), c.floats("dkw", 2), c.floats("dout", T*width), c.floats("qkv", T*width),
			c.floats("rope", T*2), 1, c.heads(), c.size("T", T, 0))
	},
	"SwiGLU": func(c *call) {
		c.SwiGLU(c.floats("out", T*n), c.floats("gateUp", T*2*n), c.size("N", n, 1), c.size("T", T, 0))
	},
	"SwiGLUGrad": func(c *call) {
		c.SwiGLUGrad(c.floats("dGateUp", T*2*n), c.floats("dout", T*n), c.floats("gateUp", T*2*n), c.size("N", n, 1), c.size("T", T, 0))
	},
	"GeGLU": func(c *call) {
		c.GeGLU(c.floats("out", T*n), c.floats("gateUp", T*2*n), c.size("N", n, 1), c.size("T", T, 0))
	},
	"GeGLUGrad": func(c *call) {
		c.GeGLUGrad(c.floats("dGateUp", T*2*n), c.floats("dout", T*n), c.floats("gateUp", T*2*n), c.size("N", n, 1), c.size("T", T, 0))
	},
	"Scale": func(c *call) { c.Scale(c.floats("out", n), c.floats("x", n), 2, c.size("n", n, 0)) },
	"Add":   func(c *call) { c.Add(c.floats("out", n), c.floats("a", n), c.floats("b", n), c.size("n", n, 0)) },
	"Attention": func(c *call) {
		c.Attention(c.floats("out", T*4), c.floats("lse", T*2), c.floats("qkv", T*width), c.trees(), c.attn(), c.cached(),
			c.size("T", T, 0))
	},
	"AttentionGrad": func(c *call) {
		c.AttentionGrad(c.floats("dqkv", T*width), c.floats("dout", T*4), c.floats("qkv", T*width), c.floats("out", T*4),
			c.floats("lse", T*2), c.trees(), c.attn(), c.cached(), c.size("T", T, 0))
	},
	"LogProb": func(c *call) {
		out := kernels.LogProbOut{LogP: c.floats("logp", T), Entropy: c.floats("entropy", T), LSE: c.floats("lse", T),
			Jacobian: c.optional("jacobian", kernels.F32, T*k, T*k)}
		c.LogProb(out, c.floats("h", T*k), c.weight("w", kernels.BF16), c.ints("targets", 0, -1, 3), c.logits(), c.size("T", T, 0))
	},
	"LogProbGradX": func(c *call) {
		c.LogProbGradX(c.floats("dh", T*k), c.floats("dlogp", T), c.floats("jacobian", T*k), c.size("H", k, 1), c.size("T", T, 0))
	},
	"LogProbGradW": func(c *call) {
		c.LogProbGradW(c.floats("dw", n*k), c.floats("dlogp", T), c.floats("h", T*k), c.weight("w", kernels.BF16),
			c.ints("targets", 0, -1, 3), c.floats("lse", T), c.logits(), c.size("T", T, 0))
	},
	"Loss": func(c *call) {
		in := kernels.LossIn{LogP: c.floats("logp", T), Entropy: c.floats("entropy", T), OldLogP: c.floats("old logp", T),
			Advantage: c.floats("advantage", T), Weight: c.floats("weight", T)}
		c.Loss(c.floats("dlogp", T), c.doubles("stats", kernels.NumStats), in, kernels.Loss{}, c.size("T", T, 0))
	},
	"SumSquares": func(c *call) { c.SumSquares(c.doubles("out", 1), c.floats("x", n), c.size("n", n, 0)) },
	"Adam": func(c *call) {
		step := kernels.AdamStep{Eps: 1, Correction1: 1, Correction2: 1}
		c.Adam(c.floats("p", n), c.floats("m", n), c.floats("v", n), c.floats("g", n), step, c.size("n", n, 0))
	},
	"NewCache": func(c *call) {
		_, _ = c.NewCache(c.heads(), c.cached(), c.size("layers", 1, 1), c.size("blocks", 1, 1))
	},
	"CopyBlocks": func(c *call) {
		c.CopyBlocks(c.cache(), c.ints("to", 1), c.ints("from", 0), c.size("n", 1, 0))
	},
	"PagedAttention": func(c *call) {
		s := c.spans()
		p := kernels.Paged{Starts: s.Starts, N: s.N, Positions: c.ints("positions", 0, 1, 2), Tables: c.ints("tables", 0),
			Stride: c.size("the stride of the tables", 1, 1)}
		c.PagedAttention(c.floats("out", T*4), c.floats("qkv", T*width), c.cache(), 0, p, c.attn(), c.size("T", T, 0))
	},
	"Gather": func(c *call) {
		c.Gather(c.floats("out", 2*k), c.buffer("x", kernels.F32, 0, k), c.ints("rows", 0, 0), c.size("width", k, 1), c.size("n", 2, 0))
	},
	"Draw": func(c *call) {
		in := kernels.DrawIn{Cap: c.cap(), InvTemp: c.floats("inverse temperature", T), Uniform: c.doubles("uniform", T),
			TopK: c.ints("top-k", 0, 1, 2), TopP: c.floats("top-p", T), MinP: c.floats("min-p", T),
			Allowed: c.optional("allowed", kernels.I32, T, T), Given: c.optional("given", kernels.I32, T, T)}
		out := kernels.DrawOut{Token: c.ints("token", 0, 0, 0), LogP: c.floats("logp", T), Raw: c.optional("raw", kernels.F32, T, T),
			Tops: c.size("the number of top tokens", 2, 0), TopToken: c.ints("top tokens", 0, 0, 0, 0, 0, 0),
			TopLogP: c.floats("top logp", 2*T)}
		c.Draw(out, c.floats("h", T*k), c.weight("w", kernels.BF16), in, c.size("n", T, 0))
	},
}
