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

// GemmResult is products of activations with bf16 weights: 2048³, and the linears of a shape.
type GemmResult struct {
	Backend  string    `json:"backend"`
	Bench    string    `json:"bench"`
	Limits   limits    `json:"limits"`
	Products []product `json:"products"`
}

// product is one of them, forward and towards its input.
type product struct {
	Name        string  `json:"name"`
	T, N, K     int     `json:"-"`
	Forward     float64 `json:"forward_flops"`
	Backward    float64 `json:"backward_flops"`
	ShareOfPeak float64 `json:"forward_share"`
}

// Gemm measures products of a backend. Rank is of no interest to it.
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
		Header: []string{"product", "rows × outputs × inputs", "forward", "of peak", "to input", "of peak"}}
	for _, p := range r.Products {
		t.row(p.Name, fmt.Sprintf("%d × %d × %d", p.T, p.N, p.K), gflops(p.Forward), percent(p.ShareOfPeak),
			gflops(p.Backward), percent(p.Backward/r.Limits.Products))
	}
	return t
}

func (r *product) measure(ctx context.Context, b kernels.Backend, dtype kernels.DType, runs int) error {
	x, err := randomBuffer(b, r.T*r.K)
	if err != nil {
		return err
	}
	y, err := b.Alloc(kernels.F32, r.T*r.N)
	if err != nil {
		return err
	}
	w, err := b.NewMatrix(dtype, r.N, r.K)
	if err != nil {
		return err
	}
	b.Load(w, 0, kernels.HostRows{Encoding: kernels.EncodedBF16, Bytes: randomWeights(r.N * r.K)})
	if err := b.Compress(w); err != nil {
		return err
	}
	flops := 2 * float64(r.T) * float64(r.N) * float64(r.K)
	opt := kernels.LinearOpt{Alpha: 1}
	took, err := timeRuns(ctx, runs, func() error {
		b.Linear(kernels.Whole(y, r.N), kernels.Whole(x, r.K), w, opt, r.T)
		return b.Sync()
	})
	if err != nil {
		return err
	}
	r.Forward = flops / took.Seconds()
	took, err = timeRuns(ctx, runs, func() error {
		b.LinearGradX(kernels.Whole(x, r.K), kernels.Whole(y, r.N), w, opt, r.T)
		return b.Sync()
	})
	r.Backward = flops / took.Seconds()
	return err
}

// randomBuffer holds numbers around one.
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

// randomWeights are n bf16 numbers as those of a model: normal, so that their exponents differ.
func randomWeights(n int) []byte {
	rng := rand.New(rand.NewPCG(2, 2))
	out := make([]byte, 0, 2*n)
	for range n {
		out = binary.LittleEndian.AppendUint16(out, uint16(math.Float32bits(float32(0.02*rng.NormFloat64()))>>16))
	}
	return out
}
