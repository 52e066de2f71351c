package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/model"
)

func newBenchCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the hot paths beside the limits of this machine",
		Long: `Each benchmark needs no files: it makes random, non-zero weights of a shape. It prints a table with the
share of the limit that the hardware sets, measured in the same run, and one JSON line last. Rates are
medians.`,
		Args: badArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBenchGemmCmd(), newBenchTrainCmd(), newBenchSandboxCmd(), newBenchDecodeCmd(), newBenchPrefillCmd(), newBenchStepCmd())
	return cmd
}

// benchFlags are what all benchmarks understand.
type benchFlags struct {
	policyFlags
	shape  string
	tokens int
	rank   int
	runs   int
}

func (f *benchFlags) register(cmd *cobra.Command, rank int) {
	f.registerSpeed(cmd)
	cmd.Flags().StringVar(&f.shape, "shape", "qwen3-0.6b", "one of "+strings.Join(model.Shapes(), ", "))
	cmd.Flags().IntVar(&f.tokens, "tokens", 512, "rows of activations")
	usage := "of the adapter"
	if rank == 0 {
		usage += "; 0: none"
	}
	cmd.Flags().IntVar(&f.rank, "rank", rank, usage)
	cmd.Flags().IntVar(&f.runs, "runs", 5, "timed runs, after one to warm up")
}

// timeRuns is the median duration of run, after one that is not counted.
func timeRuns(runs int, run func() error) (time.Duration, error) {
	took := make([]time.Duration, 0, runs)
	for i := range runs + 1 {
		start := time.Now()
		if err := run(); err != nil {
			return 0, err
		}
		if i > 0 {
			took = append(took, time.Since(start))
		}
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// limits are what the hardware allows, measured just now.
type limits struct {
	Flops    float64 `json:"peak_flops"`
	Products float64 `json:"peak_product_flops"` // of products with bf16 weights
	Bytes    float64 `json:"peak_bytes_per_s"`
}

func (f *policyFlags) limits() (limits, error) {
	peak, err := cpu.MeasurePeak(cpu.Options{Threads: f.threads})
	if f.options().Precision == model.F32 {
		peak.Products = peak.Flops
	}
	return limits(peak), err
}

func (l limits) String() string {
	products := ""
	if l.Products != l.Flops {
		products = fmt.Sprintf("%.0f GFLOP/s of bf16 pairs, ", l.Products/1e9)
	}
	return fmt.Sprintf("limits here: %s%.0f GFLOP/s f32 FMA, %.1f GB/s read", products, l.Flops/1e9, l.Bytes/1e9)
}

// table prints rows in columns, as they come.
type table struct{ *tabwriter.Writer }

func newTable(w io.Writer, header ...string) table {
	t := table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	t.row(header...)
	return t
}

func (t table) row(cells ...string) { fmt.Fprintln(t, strings.Join(cells, "\t")) }

// printJSON writes the machine's line, the last of a benchmark.
func printJSON(w io.Writer, v any) error { return json.NewEncoder(w).Encode(v) }

// peakMemory is the largest resident size that this process had, in bytes; 0 where nobody tells.
func peakMemory() int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}
