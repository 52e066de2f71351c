package reward

import (
	"encoding/json"
	"iter"
	"time"
)

// Verdict is the result of a program on its tests. The set is closed; "" means that nothing was run.
type Verdict string

const (
	// Accepted, and the ways to fail, under the names that programming contests use.
	AC  Verdict = "AC"  // the right answer
	WA  Verdict = "WA"  // a wrong answer, or none
	TLE Verdict = "TLE" // the processor time limit, or endless waiting
	MLE Verdict = "MLE" // the memory limit
	OLE Verdict = "OLE" // the output limit
	RTE Verdict = "RTE" // an exception, a signal, or a non-zero exit
	CE  Verdict = "CE"  // not Python, or it cannot be compiled
	// INFRA is a failure of the machine and says nothing about the program.
	INFRA Verdict = "INFRA"
)

// Exclusion is why a score is left out of its group: it takes no part in the mean and gets no
// advantage.
type Exclusion string

const (
	ExcludedInfra     Exclusion = "infra"     // the sandbox failed, again and again
	ExcludedTruncated Exclusion = "truncated" // cut off at the length limit, and on_truncated is mask
	// ExcludedCustom is a completion on which the reward file failed, and ExcludedReward one whose reward is no number
	// that others could be compared with.
	ExcludedCustom Exclusion = "reward_file"
	ExcludedReward Exclusion = "reward"
	// ExcludedJudge is a completion that the model of judge_url gave no score.
	ExcludedJudge Exclusion = "judge"
)

// Failed reports whether the completion should have a reward but scoring failed, rather than being excluded on purpose.
func (e Exclusion) Failed() bool { return e != "" && e != ExcludedTruncated }

// Score is what a completion earned, and how.
type Score struct {
	// Reward is the weighted sum of the components. It means nothing where Excluded is set.
	Reward   float64   `json:"reward"`
	Excluded Exclusion `json:"excluded,omitempty"`
	// Components are measured whatever their weights are. Components.Correct, not Reward or Verdict, decides what counts as
	// correct, in pass@1 and everywhere else.
	Components Components `json:"components"`
	// Verdict is AC, or that of the first test that failed. Passed of Total tests passed; those that
	// were not run count as failed.
	Verdict Verdict `json:"verdict"`
	Passed  int     `json:"passed"`
	Total   int     `json:"total"`
	// Tests has one verdict for each test, in the order of the problem; empty where it was not run.
	Tests []Verdict `json:"tests,omitempty"`
	// CPU is the processor time of all runs together.
	CPU time.Duration `json:"-"`
	// Cached says that the verdicts are of an equal program that ran before.
	Cached bool `json:"cached,omitempty"`
	// Blocked is the string of the block list that the completion contains.
	Blocked string `json:"blocked,omitempty"`
	// Note says what went wrong outside the program: in the sandbox, a checker, or a custom reward.
	Note string `json:"note,omitempty"`
}

// MarshalJSON writes null for the reward of an excluded score, and the processor time in milliseconds.
func (s Score) MarshalJSON() ([]byte, error) {
	type plain Score
	reward := &s.Reward
	if s.Excluded != "" {
		reward = nil
	}
	return json.Marshal(struct {
		Reward *float64 `json:"reward"`
		plain
		CPU float64 `json:"cpu_ms"`
	}{reward, plain(s), milliseconds(s.CPU)})
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}

// Components are the measures of a completion that a reward is a weighted sum of.
type Components struct {
	Format   float64 `json:"format"`   // 0, or −1 where there is no program
	Compile  float64 `json:"compile"`  // 1 where the program is Python, else 0
	Fraction float64 `json:"fraction"` // the share of the tests that passed
	Correct  float64 `json:"correct"`  // 1 where all tests passed, else 0
	Length   float64 `json:"length"`   // the share of the length limit that was used
	Custom   float64 `json:"custom"`   // what the reward file says

	Judge float64 `json:"judge,omitempty"` // what the model of judge_url says
}

// component is one of the Components, with its name.
type component struct {
	name  string
	value *float64
}

// named lists the components in order.
func (c *Components) named() []component {
	return []component{{"format", &c.Format}, {"compile", &c.Compile}, {"fraction", &c.Fraction}, {"correct", &c.Correct},
		{"length", &c.Length}, {"custom", &c.Custom}, {"judge", &c.Judge}}
}

// Weights turn components into a reward.
type Weights Components

// Apply computes the reward: the weighted sum of the components.
func (w Weights) Apply(c Components) float64 {
	return w.Format*c.Format + w.Compile*c.Compile + w.Fraction*c.Fraction +
		w.Correct*c.Correct + w.Length*c.Length + w.Custom*c.Custom + w.Judge*c.Judge
}

// Means are the means of the components with a weight, over the scores that are not excluded, by name.
func (w Weights) Means(scores iter.Seq[Score]) map[string]float64 {
	means, n, weights := map[string]float64{}, 0, Components(w)
	for s := range scores {
		if s.Excluded != "" {
			continue
		}
		n++
		values := s.Components.named()
		for i, weight := range weights.named() {
			if *weight.value != 0 {
				means[weight.name] += *values[i].value
			}
		}
	}
	for name := range means {
		means[name] /= float64(n)
	}
	return means
}
