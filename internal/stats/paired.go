package stats

import (
	"fmt"
	"math"

	"github.com/seed-7879b91d/grpo/internal/plural"
)

// Judged has the results of an evaluation by problem: a line of evaluations.jsonl.
type Judged struct {
	Step     int       `json:"step"`
	Problems []string  `json:"problems"` // those that were judged
	Correct  []float64 `json:"correct"`
	// Sampled has the results of sampled completions; nil if there were none, or they were not recorded.
	Sampled *Tried `json:"sampled,omitempty"`
}

// Tried counts, by problem, the sampled completions that were judged, and those that were right.
type Tried struct {
	Problems []string `json:"problems"` // with at least one judged completion
	Judged   []int    `json:"judged"`
	Right    []int    `json:"right"`
}

// Shares are the problems with their shares of right completions, in the form that Compare takes.
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

// Change is the change of the pass rate between two evaluations on the same problems.
type Change struct {
	Since    int        `json:"since"`    // the step of the earlier one
	Problems int        `json:"problems"` // judged in both
	Mean     float64    `json:"mean"`
	CI       [2]float64 `json:"ci"` // 95 % interval, from a bootstrap over problems
}

// Compare compares two evaluations problem by problem; nil if they have no problem in common.
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

// gainInterval is the 95 % interval of a mean gain. If all gains are equal, the bootstrap has no variance; then Wilson's
// interval says how much so few problems may hide.
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

// String is the change with its interval, if it can be relied on.
func (c *Change) String() string {
	return fmt.Sprintf("%+.3f [%+.3f, %+.3f] since step %d, %s", c.Mean, c.CI[0], c.CI[1], c.Since, c.Verdict())
}

// Verdict says whether the change is significant.
func (c *Change) Verdict() string {
	switch {
	case c.Problems < MinProblems:
		return TooFewNote(c.Problems)
	case c.Sure():
		return "more than chance"
	}
	return "may be chance"
}

// Sure reports whether the change is significant, and of enough problems.
func (c *Change) Sure() bool { return c.Problems >= MinProblems && (c.CI[0] > 0 || c.CI[1] < 0) }

// TooFewNote is the note about too few problems.
func TooFewNote(problems int) string {
	return plural.Of(problems, "problem") + " " + plural.Pick(problems, "is", "are") + " too few to say"
}
