// Package bench measures the hot paths of the trainer, compared with the limits of the hardware, which it measures in the
// same run. It needs no files: models have random weights of a named shape. Rates are medians. A benchmark returns its
// result and prints nothing; it does not know of flags.
package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
)

// Opener opens a device by its name, with that many threads; 0: one per core.
type Opener func(device string, threads int) (kernels.Backend, error)

// Model is the configuration that the benchmarks of a model share.
type Model struct {
	Open    Opener
	Device  string
	Threads int
	Options model.Options

	Shape  string // one of model.Shapes
	Tokens int    // rows of activations
	Rank   int    // of the adapter; 0: none
	Runs   int    // timed runs, after a warm-up

	Recompute string // auto, none, cheap or blocks: for Train and Long; Groups takes cheap
}

// Result is the result of a benchmark. As JSON it is the line for programs.
type Result interface{ Report() Report }

// Report is a result for people: a table, with text around it.
type Report struct {
	Above  string
	Header []string
	Rows   [][]string
	Below  string
}

// row adds a row to the table.
func (r *Report) row(cells ...string) { r.Rows = append(r.Rows, cells) }

// hardwareLimits are the measured limits of the hardware.
type hardwareLimits struct {
	Flops    float64 `json:"peak_flops"`
	Products float64 `json:"peak_product_flops"` // of matrix products with bf16 weights
	Bytes    float64 `json:"peak_bytes_per_s"`

	whole bool // int8 products, whose limit is not measured
}

// CheckSizes refuses sizes for which nothing can be measured.
func (m *Model) CheckSizes() error {
	switch {
	case m.Tokens < 1 || m.Runs < 1:
		return badinput.Errorf("--tokens and --runs: found %d and %d, expected 1 or more", m.Tokens, m.Runs)
	case m.Rank < 0:
		return badinput.Errorf("--rank: found %d, expected 0 or more", m.Rank)
	}
	return nil
}

// begin opens the backend and measures its limits, while nothing else runs.
func (m *Model) begin() (hardwareLimits, kernels.Backend, error) {
	if _, err := model.Products(m.Shape); err != nil { // report an unknown shape first
		return hardwareLimits{}, nil, err
	}
	b, err := m.Open(m.Device, m.Threads)
	if err != nil {
		return hardwareLimits{}, nil, err
	}
	peak, known := kernels.PeakOf(b)
	if !known {
		return hardwareLimits{}, nil, errors.Join(fmt.Errorf("%s tells no peak to compare with", b.Name()), b.Close())
	}
	if m.Options.Precision == model.Auto { // the random weights are frozen bf16
		m.Options.Precision = model.F32
		if kernels.RoundsUsually(b) {
			m.Options.Precision = model.BF16
		}
	}
	if m.Options.Precision == model.F32 {
		peak.Products = peak.Mixed
	}
	resetPeak() // without the memory of measuring the limits
	return hardwareLimits{Flops: peak.Flops, Products: peak.Products, Bytes: peak.Bytes, whole: m.Options.Precision == model.I16}, b, nil
}

// above is the line above a table: the backend and its limits.
func (l hardwareLimits) above(backend string) string {
	products := ""
	if l.Products != l.Flops {
		products = fmt.Sprintf("%.0f GFLOP/s of products with bf16, ", l.Products/1e9)
	}
	above := fmt.Sprintf("%s; limits here: %s%.0f GFLOP/s f32 FMA, %.1f GB/s read", backend, products, l.Flops/1e9, l.Bytes/1e9)
	if l.whole {
		above += "; of products with int16 none is known, and a share may be above 100 %"
	}
	return above + "\n"
}

// timeRuns is the median duration of run, after a warm-up.
func timeRuns(ctx context.Context, runs int, run func() error) (time.Duration, error) {
	var took []time.Duration // grows with the actual runs: the user may interrupt
	for i := range runs + 1 {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		start := time.Now()
		if err := run(); err != nil {
			return 0, err
		}
		if i > 0 {
			took = append(took, time.Since(start))
		}
	}
	return median(took), nil
}

// peakMemory is the peak resident size of this process in bytes; 0 if unknown.
func peakMemory() int64 { return resident("VmHWM") }

// resetPeak resets the kernel's peak, and reports whether it could.
func resetPeak() bool { return os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) == nil }

// resident is an entry about this process's memory in /proc, in bytes.
func resident(name string) int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, name+": %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}

// Formats of numbers in tables.
func gflops(x float64) string    { return fmt.Sprintf("%.0f GFLOP/s", x/1e9) }
func percent(x float64) string   { return fmt.Sprintf("%.0f %%", 100*x) }
func gigabytes(n int64) string   { return fmt.Sprintf("%.2f GB", float64(n)/1e9) }
func perSecond(x float64) string { return fmt.Sprintf("%.1f tokens/s", x) }

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
