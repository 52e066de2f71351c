package stats

import (
	"fmt"
	"math"

	"github.com/seed-7879b91d/grpo/internal/plural"
)

// Judged is which problems an evaluation found right: a line of evaluations.jsonl.
type Judged struct {
	Step     int       `json:"step"`
	Problems []string  `json:"problems"` // those that were judged
	Correct  []float64 `json:"correct"`
	// Sampled is what became of the sampled completions; nil where there were none, or nobody wrote it down.
	Sampled *Tried `json:"sampled,omitempty"`
}

// Tried is how many sampled completions of each problem were judged, and how many of these were right.
type Tried struct {
	Problems []string `json:"problems"` // of which any was judged
	Judged   []int    `json:"judged"`
	Right    []int    `json:"right"`
}

// Shares are the problems with the share of completions that was right, so that two evaluations of the same problems
// can be compared by Compare.
func (t *Tried) Shares(step int) Judged {
	j := Judged{Step: step}
	if t == nil {
		return j
	}
	for i, id := range t.Problems[:min(len(t.Problems), len(t.Judged), len(t.Right))] {
		if t.Judged[i] > 0 {
			j.Problems, j.Correct = append(j.Problems, id), append(j.Correct, float64(t.Right[i])/float64(t.Judged[i]))
		}
	}
	return j
}

// Change is by how much more of the same problems were right later.
type Change struct {
	Since    int        `json:"since"`    // the step
	Problems int        `json:"problems"` // that both evaluations judged
	Mean     float64    `json:"mean"`
	CI       [2]float64 `json:"ci"` // of 95 %, from resampling the problems
}

// Compare sets two evaluations against each other, problem by problem. There is nothing to say where they have no
// problem in common.
func Compare(before, after Judged) *Change {
	was := make(map[string]float64, len(before.Problems))
	for i, id := range before.Problems[:min(len(before.Problems), len(before.Correct))] {
		was[id] = before.Correct[i]
	}
	var gains []float64
	for i, id := range after.Problems[:min(len(after.Problems), len(after.Correct))] {
		if old, both := was[id]; both {
			gains = append(gains, after.Correct[i]-old)
		}
	}
	if len(gains) == 0 {
		return nil
	}
	return &Change{Since: before.Step, Problems: len(gains), Mean: Mean(gains), CI: gainInterval(gains)}
}

// gainInterval is the interval of 95 % for a mean gain. Where all gains are the same, every resampling is too: what
// may hide in so few problems is Wilson's to say then.
func gainInterval(gains []float64) [2]float64 {
	if ci := Bootstrap(gains, 0); ci[0] < ci[1] {
		return ci
	}
	gain, n := Mean(gains), len(gains)
	ci := Wilson(min(1, math.Abs(gain)), n)
	switch {
	case gain == 0:
		return [2]float64{-ci[1], ci[1]}
	case gain < 0:
		return [2]float64{-ci[1], -ci[0]}
	}
	return ci
}

// String is the change in words that can be relied on.
func (c *Change) String() string {
	return fmt.Sprintf("%+.3f [%+.3f, %+.3f] since step %d, %s", c.Mean, c.CI[0], c.CI[1], c.Since, c.Verdict())
}

// Verdict is what the change is worth.
func (c *Change) Verdict() string {
	switch {
	case c.Problems < Few:
		return TooFew(c.Problems)
	case c.Sure():
		return "more than chance"
	}
	return "may be chance"
}

// Sure tells whether so many problems changed that chance is no explanation.
func (c *Change) Sure() bool { return c.Problems >= Few && (c.CI[0] > 0 || c.CI[1] < 0) }

// TooFew says of so many problems that nothing can be told from them.
func TooFew(problems int) string {
	return plural.Of(problems, "problem") + " " + plural.Pick(problems, "is", "are") + " too few to say"
}
