package grpo

import (
	"fmt"

	"github.com/seed-7879b91d/grpo/reward"
)

// Advice is something that a person should know about the run, and what to try.
type Advice struct {
	Rule    string `json:"rule"`
	Finding string `json:"finding"` // with the evidence
	Try     string `json:"try"`
	Fatal   bool   `json:"fatal,omitempty"` // going on would be a waste
}

// adviser judges steps by rules. It keeps the little history that the rules need.
type adviser struct {
	allBad, allGood int // steps in a row
	bestFormat      float64
	lastKL          float64
	said            map[string]int // the step at which a rule last spoke
}

// The thresholds of the rules.
const (
	patience      = 3    // steps in a row before a rule about groups speaks
	silence       = 10   // steps that a rule is quiet for after it spoke
	klSpike       = 0.05 // kl_v2 between sampler and trainer
	formatFall    = 0.2
	mostTruncated = 0.5
	mostTimeouts  = 0.5
	slowSandbox   = 0.3 // share of a step spent waiting for scores
	mostErrors    = 0.2 // share of completions that the machine failed to score
)

// advise gives what the rules say of a step; nothing when all is well.
func (a *adviser) advise(m Metrics, t Timing) (out []Advice) {
	say := func(rule, finding, try string) {
		if last, spoke := a.said[rule]; spoke && m.Step < last+silence {
			return
		}
		if a.said == nil {
			a.said = map[string]int{}
		}
		a.said[rule] = m.Step
		out = append(out, Advice{Rule: rule, Finding: finding, Try: try})
	}
	if a.allBad = next(a.allBad, m.AllBad == 1); a.allBad >= patience {
		say("all groups wrong", fmt.Sprintf("no completion was right in %d steps in a row", a.allBad),
			"easier problems (max_prompt_chars), partial credit (reward=fraction), or more room (max_tokens)")
	}
	if a.allGood = next(a.allGood, m.AllGood == 1); a.allGood >= patience {
		say("all groups right", fmt.Sprintf("every completion was right in %d steps in a row", a.allGood), "evaluate, save, and go on with harder data")
	}
	if m.Updated && m.KL2 > klSpike && m.KL2 > 4*a.lastKL {
		say("policy jumps", fmt.Sprintf("kl_v2 is %.3g, %.3g the step before", m.KL2, a.lastKL), fmt.Sprintf("learning_rate=%.2g, or a lower temperature", m.LearningRate/2))
	}
	a.lastKL = m.KL2
	if a.bestFormat = max(a.bestFormat, m.FormatRate); m.FormatRate < a.bestFormat-formatFall {
		say("format falls", fmt.Sprintf("%.0f %% of completions have a program, %.0f %% at best", 100*m.FormatRate, 100*a.bestFormat), "a larger format_coef, or a lower learning_rate")
	}
	if m.Truncated > mostTruncated {
		say("truncation", fmt.Sprintf("%.0f %% of completions end at max_tokens", 100*m.Truncated), "a larger max_tokens")
	}
	if n := m.Verdicts[reward.TLE]; m.Completions > 0 && float64(n) > mostTimeouts*float64(m.Completions) {
		say("time-outs", fmt.Sprintf("%d of %d programs ran out of time", n, m.Completions), "a larger reward_timeout, or easier problems")
	}
	if t.Total > 0 && t.Score/t.Total > slowSandbox {
		say("sandbox is the bottleneck", fmt.Sprintf("%.0f %% of the step was spent waiting for scores", 100*t.Score/t.Total), "more sandbox_slots, fewer tests (max_tests), or pipeline=score where it is off")
	}
	if n := m.RewardErrors; n > 0 {
		share := float64(n) / float64(m.Completions)
		out = append(out, Advice{Rule: "reward errors", Fatal: share > mostErrors,
			Finding: fmt.Sprintf("%d of %d completions could not be scored", n, m.Completions), Try: "fix the reward first: grpo doctor"})
	}
	return out
}

func next(n int, again bool) int {
	if again {
		return n + 1
	}
	return 0
}
