package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
)

func newBenchGemmCmd() *cobra.Command {
	var flags benchFlags
	cmd := &cobra.Command{
		Use:   "gemm [--shape S] [--tokens N]",
		Short: "Products of activations with bf16 weights: 2048³, and the linears of a shape",
		Example: `  grpo bench gemm
  grpo bench gemm --shape qwen3-4b --tokens 1 --threads 1`,
		Args: badArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return benchGemm(cmd, &flags) },
	}
	flags.register(cmd, 16)
	return cmd
}

// gemmResult is one product, forward and towards its input.
type gemmResult struct {
	Name        string  `json:"name"`
	T, N, K     int     `json:"-"`
	Forward     float64 `json:"forward_flops"`
	Backward    float64 `json:"backward_flops"`
	ShareOfPeak float64 `json:"forward_share"`
}

func benchGemm(cmd *cobra.Command, f *benchFlags) error {
	products, err := model.Products(f.shape)
	if err != nil {
		return err
	}
	lim, err := f.limits()
	if err != nil {
		return err
	}
	b, err := f.backend()
	if err != nil {
		return err
	}
	defer b.Close()
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%s; %s\n", b.Name(), lim)
	t := newTable(out, "product", "rows × outputs × inputs", "forward", "of peak", "to input", "of peak")
	results := []gemmResult{{Name: "square", T: 2048, N: 2048, K: 2048}}
	for _, p := range products {
		results = append(results, gemmResult{Name: p.Name, T: f.tokens, N: p.Outputs, K: p.Inputs})
	}
	for i := range results {
		r := &results[i]
		if err := r.measure(b, f.options().Precision.Frozen(), f.runs); err != nil {
			return err
		}
		r.ShareOfPeak = r.Forward / lim.Products
		t.row(r.Name, fmt.Sprintf("%d × %d × %d", r.T, r.N, r.K),
			fmt.Sprintf("%.0f GFLOP/s", r.Forward/1e9), fmt.Sprintf("%.0f %%", 100*r.ShareOfPeak),
			fmt.Sprintf("%.0f GFLOP/s", r.Backward/1e9), fmt.Sprintf("%.0f %%", 100*r.Backward/lim.Products))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return printJSON(out, map[string]any{"bench": "gemm", "backend": b.Name(), "limits": lim, "products": results})
}

func (r *gemmResult) measure(b kernels.Backend, dtype kernels.DType, runs int) error {
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
	took, err := timeRuns(runs, func() error {
		b.Linear(kernels.Whole(y, r.N), kernels.Whole(x, r.K), w, opt, r.T)
		return b.Sync()
	})
	if err != nil {
		return err
	}
	r.Forward = flops / took.Seconds()
	took, err = timeRuns(runs, func() error {
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
