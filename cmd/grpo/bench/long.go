package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
)

// Long measures a training step of one sequence at several lengths.
type Long struct {
	Model
	Lengths []int
}

// LongResult is the time and memory of a training step by the length of its sequence.
type LongResult struct {
	Bench     string         `json:"bench"`
	Backend   string         `json:"backend"`
	Shape     string         `json:"shape"`
	Rank      int            `json:"rank"`
	Recompute string         `json:"recompute"`
	Quantize  string         `json:"quantize"`
	Limits    hardwareLimits `json:"limits"`
	Weights   Loaded         `json:"weights"`
	Rows      []LongRow      `json:"lengths"`
	// Exponent is the exponent of the power law that fits the times best. Linear and Square are the seconds per token, and
	// per pair of a token and the sequence's length, that fit best together; Worst is the largest relative error of this
	// fit.
	Exponent float64 `json:"exponent"`
	Linear   float64 `json:"seconds_per_token"`
	Square   float64 `json:"seconds_per_token_squared"`
	Worst    float64 `json:"worst_residual"`
}

// Loaded describes the loaded weights.
type Loaded struct {
	Count      int     `json:"count"`
	Bytes      int     `json:"bytes"`
	LayerCount int     `json:"layer_count"` // of the matrices of the layers
	LayerBytes int     `json:"layer_bytes"`
	Seconds    float64 `json:"seconds"`             // to draw and load them, with the adapter and its moments
	Peak       int64   `json:"peak_resident_bytes"` // until then; 0: unknown
}

// LongRow is a training step of a sequence of that length: forward, backward, update, and the score after it.
type LongRow struct {
	Tokens  int     `json:"tokens"`
	Planned int64   `json:"planned_bytes"`
	Peak    int64   `json:"peak_resident_bytes"` // 0: unknown
	Seconds float64 `json:"seconds"`             // of forward and backward
}

// Run runs the benchmark.
func (l *Long) Run(ctx context.Context) (*LongResult, error) {
	slices.Sort(l.Lengths)
	if len(l.Lengths) < 2 || l.Lengths[0] < 2 || len(slices.Compact(slices.Clone(l.Lengths))) < len(l.Lengths) {
		return nil, badinput.Errorf("--lengths: found %v, expected two lengths or more, all different and from 2 on", l.Lengths)
	}
	if err := l.checkRecompute(); err != nil {
		return nil, err
	}
	if err := l.checkLongest(); err != nil { // before the limits of the machine are measured, which takes a second
		return nil, err
	}
	lim, b, err := l.begin()
	if err != nil {
		return nil, err
	}
	defer b.Close()
	r := &LongResult{Bench: "long", Backend: b.Name(), Shape: l.Shape, Rank: l.Rank, Limits: lim, Quantize: l.Options.Quantise.String()}
	if r.Rows, err = l.plan(b); err != nil {
		return nil, err
	}
	r.Recompute = l.Options.Recompute.String()
	if err := l.measure(ctx, b, r); err != nil {
		return nil, err
	}
	r.fit()
	return r, nil
}

// plan computes the memory for each length, and chooses recompute for the longest.
func (l *Long) plan(b kernels.Backend) ([]LongRow, error) {
	rows := make([]LongRow, len(l.Lengths))
	return rows, l.chooseRecompute(b, func() (longest int64, err error) {
		ledger := kernels.NewLedger(b)
		step, err := l.step(ledger)
		for i, n := range l.Lengths {
			if err == nil {
				longest, err = plannedBytes(ledger, step.policy, n)
			}
			rows[i] = LongRow{Tokens: n, Planned: longest}
		}
		return longest, err
	})
}

// checkLongest refuses a sequence longer than the shape's positions.
func (l *Long) checkLongest() error {
	shape, err := model.ShapeNamed(l.Shape)
	if longest := l.Lengths[len(l.Lengths)-1]; err == nil && longest > shape.MaxPositions {
		return badinput.Errorf("--lengths: found %d, expected at most %d, the positions of %s", longest, shape.MaxPositions, l.Shape)
	}
	return err
}

// step makes a model with an adapter and its optimizer.
func (l *Long) step(b kernels.Backend) (*trainStep, error) {
	p, err := model.Random(b, l.Shape, l.Options)
	if err == nil {
		err = attachRandom(p, l.Rank)
	}
	if err != nil {
		return nil, err
	}
	return trainStepOf(b, p, l.Lengths[len(l.Lengths)-1])
}

func (l *Long) measure(ctx context.Context, b kernels.Backend, r *LongResult) error {
	before, start, rows := resident("VmRSS"), time.Now(), r.Rows
	step, err := l.step(b)
	if err != nil {
		return err
	}
	r.Weights = Loaded{Count: step.policy.WeightCount(), Bytes: step.policy.WeightBytes(), Seconds: time.Since(start).Seconds(),
		Peak: peakMemory()}
	r.Weights.LayerBytes, r.Weights.LayerCount = step.policy.LayerWeights()
	debug.FreeOSMemory() // memory used to draw the weights
	whole := step.datums[0]
	for i := range rows {
		n := rows[i].Tokens
		if _, _, err := step.policy.Prepare(n); err != nil {
			return err
		}
		step.datums[0] = model.NewDatum(slices.Concat(whole.Tokens[:n], whole.Targets[n-1:n]), 1, make([]float32, n), 1)
		resets := resetPeak()
		start := time.Now()
		if err := step.gradients(ctx); err != nil {
			return err
		}
		rows[i].Seconds = time.Since(start).Seconds()
		_, err := step.policy.Score(ctx, [][]int32{whole.Tokens[:n]}, 1)
		if err := errors.Join(err, step.update()); err != nil {
			return err
		}
		if rows[i].Planned += before; resets || i == len(rows)-1 {
			rows[i].Peak = peakMemory()
		}
	}
	return nil
}

// fit fits the power law, and the linear and quadratic part, by relative least squares.
func (r *LongResult) fit() {
	var n, x, y, xx, xy float64 // sums over logarithms
	var aa, ab, bb, a1, b1 float64
	for _, row := range r.Rows {
		t := float64(row.Tokens)
		lx, ly := math.Log(t), math.Log(row.Seconds)
		n, x, y, xx, xy = n+1, x+lx, y+ly, xx+lx*lx, xy+lx*ly
		a, b := t/row.Seconds, t*t/row.Seconds
		aa, ab, bb, a1, b1 = aa+a*a, ab+a*b, bb+b*b, a1+a, b1+b
	}
	r.Exponent = (n*xy - x*y) / (n*xx - x*x)
	det := aa*bb - ab*ab
	r.Linear, r.Square = (a1*bb-b1*ab)/det, (b1*aa-a1*ab)/det
	for _, row := range r.Rows {
		t := float64(row.Tokens)
		r.Worst = max(r.Worst, math.Abs((r.Linear*t+r.Square*t*t)/row.Seconds-1))
	}
}

// Report is the result for people.
func (r *LongResult) Report() Report {
	w := r.Weights
	t := Report{Above: r.Limits.above(r.Backend) + fmt.Sprintf(
		"%s, rank %d, recompute=%s, quantize=%s; one sequence\n"+
			"%.1f M weights in %s, %.3f bytes each, in the layers %.3f; loaded in %.0f s, %s at the most\n",
		r.Shape, r.Rank, r.Recompute, r.Quantize, float64(w.Count)/1e6, gigabytes(int64(w.Bytes)), float64(w.Bytes)/float64(w.Count),
		float64(w.LayerBytes)/float64(w.LayerCount), w.Seconds, gigabytes(w.Peak)),
		Header: []string{"tokens", "planned memory", "peak memory", "of the plan", "forward+backward", "", "exponent"}}
	for i, row := range r.Rows {
		exponent, peak, share := "", "unknown", ""
		if i > 0 {
			was := r.Rows[i-1]
			exponent = fmt.Sprintf("%.2f", math.Log(row.Seconds/was.Seconds)/math.Log(float64(row.Tokens)/float64(was.Tokens)))
		}
		if row.Peak > 0 {
			peak, share = gigabytes(row.Peak), fmt.Sprintf("%.1f %%", 100*float64(row.Peak)/float64(row.Planned))
		}
		t.row(fmt.Sprint(row.Tokens), gigabytes(row.Planned), peak, share, fmt.Sprintf("%.2f s", row.Seconds),
			perSecond(float64(row.Tokens)/row.Seconds), exponent)
	}
	t.Below = fmt.Sprintf("fitted exponent %.2f; %.3g ms a token and %.3g ns for each pair of tokens fit within %.1f %%\n",
		r.Exponent, 1e3*r.Linear, 1e9*r.Square, 100*r.Worst)
	return t
}
