package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
)

// GemmResult is the speed of products of activations with bf16 weights: 2048³, and the linear layers of a shape.
type GemmResult struct {
	Backend  string         `json:"backend"`
	Bench    string         `json:"bench"`
	Limits   hardwareLimits `json:"limits"`
	Products []product      `json:"products"`
}

// product is one of them, forward and backward to its input. For the head it is as in a step, chunk by chunk and with the softmax:
// forward scores tokens, backward is both products of the gradient.
type product struct {
	Name        string  `json:"name"`
	T, N, K     int     `json:"-"`
	Forward     float64 `json:"forward_flops"`
	Backward    float64 `json:"backward_flops"`
	ShareOfPeak float64 `json:"forward_share"`
}

// Gemm measures the products of a backend. It ignores Rank.
func Gemm(ctx context.Context, m *Model) (*GemmResult, error) {
	linears, err := model.Products(m.Shape)
	if err != nil {
		return nil, err
	}
	if m.Options.Precision == model.I16 {
		return nil, badinput.Errorf("--precision int16 is for weights of four bits, and those here are bf16; type f32 or bf16")
	}
	lim, b, err := m.begin()
	if err != nil {
		return nil, err
	}
	defer b.Close()
	r := &GemmResult{Backend: b.Name(), Bench: "gemm", Limits: lim, Products: []product{{Name: "square", T: 2048, N: 2048, K: 2048}}}
	for _, p := range linears {
		r.Products = append(r.Products, product{Name: p.Name, T: m.Tokens, N: p.Outputs, K: p.Inputs})
	}
	for i := range r.Products {
		p := &r.Products[i]
		if err := p.measure(ctx, b, m.Options.Precision.Frozen(), m.Runs); err != nil {
			return nil, err
		}
		p.ShareOfPeak = p.Forward / lim.Products
	}
	return r, nil
}

// Report is the result for people.
func (r *GemmResult) Report() Report {
	t := Report{Above: r.Limits.above(r.Backend),
		Header: []string{"product", "rows × outputs × inputs", "forward", "of peak", "to input", "of peak"},
		Below:  "head: forward is scoring with softmax; to input is both products of its gradient, as in a step\n"}
	for _, p := range r.Products {
		t.row(p.Name, fmt.Sprintf("%d × %d × %d", p.T, p.N, p.K), gflops(p.Forward), percent(p.ShareOfPeak),
			gflops(p.Backward), percent(p.Backward/r.Limits.Products))
	}
	return t
}

func (r *product) measure(ctx context.Context, b kernels.Backend, dtype kernels.DType, runs int) error {
	w, err := b.NewMatrix(dtype, r.N, r.K)
	if err != nil {
		return err
	}
	b.Load(w, 0, kernels.HostRows{Encoding: kernels.EncodedBF16, Bytes: randomWeights(r.N * r.K)})
	if err := b.Compress(w); err != nil {
		return err
	}
	x, err := randomBuffer(b, r.T*r.K)
	if err != nil {
		return err
	}
	flops := 2 * float64(r.T) * float64(r.N) * float64(r.K)
	work, backward := r.linear, flops
	if r.Name == "head" {
		work, backward = r.head, 2*flops
	}
	forward, toInput, err := work(b, x, w)
	if err != nil {
		return err
	}
	if r.Forward, err = rateOf(ctx, b, flops, runs, forward); err == nil {
		r.Backward, err = rateOf(ctx, b, backward, runs, toInput)
	}
	return err
}

// rateOf is the rate of operations per second.
func rateOf(ctx context.Context, b kernels.Backend, flops float64, runs int, run func()) (float64, error) {
	took, err := timeRuns(ctx, runs, func() error {
		run()
		return b.Sync()
	})
	return flops / took.Seconds(), err
}

func (r *product) linear(b kernels.Backend, x kernels.Buffer, w kernels.Matrix) (forward, toInput func(), err error) {
	out, err := b.Alloc(kernels.F32, r.T*r.N)
	y, in, opt := kernels.Whole(out, r.N), kernels.Whole(x, r.K), kernels.LinearOpt{Alpha: 1}
	return func() { b.Linear(y, in, w, opt, r.T) }, func() { b.LinearGradX(in, y, w, opt, r.T) }, err
}

func (r *product) head(b kernels.Backend, x kernels.Buffer, w kernels.Matrix) (forward, toInput func(), err error) {
	numbers, err := b.Alloc(kernels.F32, r.T*(3+r.K))
	if err != nil {
		return nil, nil, err
	}
	targets, err := b.Alloc(kernels.I32, r.T) // zeros: token 0 for each row
	score := kernels.LogProbOut{LogP: numbers.Slice(0, r.T), Entropy: numbers.Slice(r.T, 2*r.T), LSE: numbers.Slice(2*r.T, 3*r.T)}
	gradient, plain := score, kernels.Logits{InvTemp: 1}
	gradient.Jacobian = numbers.Slice(3*r.T, numbers.Len())
	return func() { b.LogProb(score, x, w, targets, plain, r.T) }, func() { b.LogProb(gradient, x, w, targets, plain, r.T) }, err
}

// randomBuffer has random numbers around one.
func randomBuffer(b kernels.Backend, n int) (kernels.Buffer, error) {
	buf, err := b.Alloc(kernels.F32, n)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(1, 1))
	host := make([]float32, n)
	for i := range host {
		host[i] = float32(rng.NormFloat64())
	}
	b.Upload(buf, host)
	return buf, nil
}

// randomWeights are n bf16 numbers like those of a model: normally distributed, so that their exponents vary.
func randomWeights(n int) []byte {
	rng := rand.New(rand.NewPCG(2, 2))
	out := make([]byte, 0, 2*n)
	for range n {
		out = binary.LittleEndian.AppendUint16(out, uint16(math.Float32bits(float32(0.02*rng.NormFloat64()))>>16))
	}
	return out
}
