// Package advice judges the steps and evaluations of a run by rules: it says what a person should know, with the
// evidence, and what to try.
package advice

import (
	"fmt"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/report"
	"github.com/seed-7879b91d/grpo/internal/stats"
)

// RewardErrors is the rule of completions that could not be scored.
const RewardErrors = "reward errors"

// Advice is something that a person should know about the run, and what to try.
type Advice struct {
	Rule    string `json:"rule"`
	Finding string `json:"finding"` // with the evidence
	Try     string `json:"try"`
	Fatal   bool   `json:"fatal,omitempty"` // going on would be a waste

	// What a program can do about it: nothing where there is none.
	Remedies []Remedy `json:"-"`
	Urgency  Urgency  `json:"-"`
}

func (a Advice) String() string { return fmt.Sprintf("! %s: %s; try %s", a.Rule, a.Finding, a.Try) }

// Reward is what the rewards of a run are made by.
type Reward int

const (
	Binary    Reward = iota // all tests or nothing: partial credit can be asked for
	Graded                  // something finer of the settings, or a reward file
	OwnReward               // a grader of the program's own
)

// Step is what the rules look at in a step.
type Step struct {
	Judge            Reward
	Number           int
	Reward           float64 // the mean
	Correct          float64 // the mean
	Groups, Skipped  int     // skipped ones taught nothing
	AllBad, AllGood  bool    // all groups
	Updated          bool
	Updates          int // that the optimizer has behind it
	KL, LearningRate float64
	Format           float64 // the share of completions with a program
	Truncated        float64 // the share that ended at max_tokens
	Completions      int
	TimedOut         int
	Unscored         int    // that nobody could score
	FileErrors       int    // those that the reward file failed on
	Why              string // the first could not be scored
	CheckerErrors    int    // that a problem's checker failed on
	CheckerNote      string // how it failed on the first
	Seconds, Waited  float64
	Asks             bool    // a model, what completions are worth
	Peak             float64 // the learning rate without its schedule; 0: nobody knows
	Steps            int     // of the run; below 1: nobody knows
}

// Advisor judges by rules. It keeps the little history that the rules need, which checkpoints save.
type Advisor struct {
	AllBad     int            `json:"all_bad"` // steps in a row
	AllGood    int            `json:"all_good"`
	Idle       int            `json:"idle,omitempty"` // without a group that differs
	BestFormat float64        `json:"best_format"`
	LastKL     float64        `json:"last_kl"`
	Swings     int            `json:"swings"`           // steps in a row in which kl went the other way, and far
	Rising     bool           `json:"rising"`           // where it went last
	Marked     bool           `json:"marked,omitempty"` // an own grader called a completion correct
	Paid       int            `json:"paid,omitempty"`   // steps in which an own grader paid for some and called none correct
	Said       map[string]int `json:"said,omitempty"`   // the step at which a rule last spoke
	Still      int            `json:"still,omitempty"`  // steps in a row that hardly moved the policy
	Scores     []float64      `json:"scores,omitempty"` // of the last steps
	BestScore  float64        `json:"best_score,omitempty"`

	// What hangs on the clock is not saved: two runs of the same would differ.
	slow     int // steps in a row
	saidSlow bool

	// What steps earned since the last evaluation, and the first evaluation that had steps before it.
	Earned float64    `json:"earned,omitempty"`
	Steps  int        `json:"steps,omitempty"`
	Early  *milestone `json:"early,omitempty"`
}

// milestone is an evaluation beside the mean reward of the steps that led to it.
type milestone struct {
	Step   int     `json:"step"`
	Reward float64 `json:"reward"`
	Greedy float64 `json:"greedy"`
}

// The thresholds of the rules.
const (
	patience      = 3              // steps in a row before a rule about groups speaks
	silence       = report.Silence // steps that a rule is quiet for after it spoke
	klSpike       = 0.05           // kl_pre_post_v2, or kl_v2 where that is more
	klSwing       = 4              // times more or less than the step before
	klCalm        = 0.01           // below which nothing is wrong
	formatFall    = 0.2
	mostTruncated = 0.5
	mostTimeouts  = 0.5
	slowSandbox   = report.SlowShare // share of a step spent waiting for scores
	unmarked      = "nothing is called correct"
	mostErrors    = 0.2 // share of completions that the machine failed to score
	rewardRise    = 0.1 // of the mean reward, that held-out problems should show too
	flatShare     = 0.2 // of that rise, which is no rise
)

// OnStep gives what the rules say of a step; nothing when all is well.
func (a *Advisor) OnStep(s Step) (out []Advice) {
	say := func(rule, finding, try string) {
		if a.mayspeak(rule, s.Number) {
			remedies, urgency := acted(rule, s)
			out = append(out, Advice{Rule: rule, Finding: finding, Try: try, Remedies: remedies, Urgency: urgency})
		}
	}
	a.Earned, a.Steps = a.Earned+s.Reward, a.Steps+1
	wrong := a.onGrading(s, say)
	if a.AllGood = next(a.AllGood, s.AllGood); a.AllGood >= patience {
		say("all groups right", fmt.Sprintf("every completion was right in %d steps in a row", a.AllGood),
			"evaluate, save, and go on with harder data")
	}
	if a.Idle = next(a.Idle, s.Groups > 0 && s.Skipped == s.Groups); a.Idle >= patience &&
		!wrong && s.CheckerErrors == 0 && a.AllGood < patience {
		how := map[Reward]string{Binary: " (reward=fraction)"}[s.Judge]
		say("no group differs", fmt.Sprintf("in %d steps in a row all completions of every problem earned the same: nothing was learned", a.Idle),
			"more completions_per_prompt, a higher temperature, or a reward that tells answers apart"+how)
	}
	if s.Updated {
		a.onPolicy(s, say)
	}
	a.onScore(s, say)
	if a.BestFormat = max(a.BestFormat, s.Format); s.Format < a.BestFormat-formatFall {
		say("format falls", fmt.Sprintf("%.0f %% of completions have a program, %.0f %% at best", 100*s.Format, 100*a.BestFormat),
			s.unlessStill("a larger format_coef, or a lower learning_rate"))
	}
	if s.Truncated > mostTruncated {
		say("truncation", fmt.Sprintf("%.0f %% of completions end at max_tokens", 100*s.Truncated), "a larger max_tokens")
	}
	if n := s.TimedOut; s.Completions > 0 && float64(n) > mostTimeouts*float64(s.Completions) {
		say("time-outs", fmt.Sprintf("%d of %d programs ran out of time", n, s.Completions), "a larger reward_timeout, or easier problems")
	}
	if a.slow = next(a.slow, s.Seconds > 0 && s.Waited/s.Seconds > slowSandbox); a.slow >= patience && !a.saidSlow {
		a.saidSlow = true // a fact about the machine: once is enough
		rule, try := report.SlowSandbox, "pipeline=full, more sandbox_slots where cores are idle, or fewer tests (max_tests)"
		if s.Asks {
			rule, try = report.SlowScores, "pipeline=full, more judge_slots where the judge has room for them, or a faster judge"
		}
		out = append(out, Advice{Rule: rule, Finding: fmt.Sprintf("%.0f %% of the step was spent waiting for scores", 100*s.Waited/s.Seconds),
			Try: try})
	}
	if n := s.Unscored; n > 0 {
		finding, try := fmt.Sprintf("%d of %d completions could not be scored", n, s.Completions), remedy(s.Why)
		if s.Why != "" {
			finding += "; the first: " + s.Why
		}
		if s.FileErrors > 0 && !strings.HasPrefix(s.Why, "judge: ") { // what is said is about the first
			try = "mend the reward file: grpo reward --reward-file tries it on completions of your own"
		}
		out = append(out, Advice{Rule: RewardErrors, Fatal: TooMany(n, s.Completions), Finding: finding, Try: try})
	}
	return out
}

// TooMany tells whether a step that so many of its completions could not be scored of is none to go on after.
func TooMany(unscored, completions int) bool {
	return float64(unscored)/float64(completions) > mostErrors
}

// remedy is what to do about a completion that was not scored, by the words that say why: grpo doctor looks at the sandbox, and
// knows nothing of the servers of others.
func remedy(why string) string {
	switch {
	case strings.HasPrefix(why, "judge: ") && strings.Contains(why, "judge_budget"):
		return "a larger judge_budget, or 0 for any number of requests"
	case strings.HasPrefix(why, "judge: "):
		return "mend the judge first: grpo reward --judge-url tries it on completions of your own"
	case strings.HasPrefix(why, "the OpenEnv server "), strings.Contains(why, "the MCP server "): // behind the name of a tool
		return "mend that server first"
	case strings.HasPrefix(why, "the reward is "), strings.HasPrefix(why, "the component "):
		return "a reward of ordinary size from what gives it: grpo reward tries completions of your own"
	case strings.HasPrefix(why, "the environment took longer "):
		return "a larger conversation_seconds, or what answers sooner"
	case strings.Contains(why, "(pids.max)"), strings.Contains(why, "(ulimit -u)"):
		return "more processes, as that says"
	}
	return "fix the reward first: grpo doctor"
}

// onGrading gives the rules about who judges, and tells whether no completion is right and nothing is learned: what
// a checker failed on may be right, and an own grader need not say of any completion that it is correct.
func (a *Advisor) onGrading(s Step, say func(rule, finding, try string)) (wrong bool) {
	if s.CheckerErrors > 0 {
		say("checker errors", fmt.Sprintf("checkers failed on %d of %d answers, which count as wrong; the first: %s",
			s.CheckerErrors, s.Completions, s.CheckerNote), "mend the checker in the data: grpo reward tries it on completions of your own")
	}
	if s.Judge == OwnReward {
		a.Marked = a.Marked || s.Correct > 0
		if a.Paid = next(a.Paid, s.Reward > 0 && !a.Marked); a.Paid >= patience && a.Said[unmarked] == 0 {
			say(unmarked, "the program's own grader pays, and has called no completion correct: pass@1 stays 0 and says nothing",
				"setting Components.Correct to 1 in the Score of what is right")
		}
	}
	a.AllBad = next(a.AllBad, s.AllBad)
	wrong = a.AllBad >= patience && s.Skipped == s.Groups && s.CheckerErrors == 0 && (s.Judge != OwnReward || a.Marked)
	if wrong {
		credit := map[Reward]string{Binary: "partial credit (reward=fraction), "}[s.Judge]
		say("all groups wrong", fmt.Sprintf("no completion was right in %d steps in a row", a.AllBad),
			"easier problems (max_prompt_chars), "+credit+"or more room (max_tokens)")
	}
	return wrong
}

// swings tells whether kl went far, and the other way than the last time that it did.
func (a *Advisor) swings(kl float64) bool {
	up, down := kl > klSwing*a.LastKL, kl*klSwing < a.LastKL
	if !up && !down || max(kl, a.LastKL) < klCalm {
		return false
	}
	turned := up != a.Rising
	a.Rising = up
	return turned
}

// mayspeak keeps a rule quiet for a while after it spoke.
func (a *Advisor) mayspeak(rule string, step int) bool {
	if last, spoke := a.Said[rule]; spoke && step < last+silence {
		return false
	}
	if a.Said == nil {
		a.Said = map[string]int{}
	}
	a.Said[rule] = step
	return true
}

// Evaluation is what the rules look at in an evaluation.
type Evaluation struct {
	Step     int
	Problems int     // that were judged
	Greedy   float64 // pass@1
	MaxTests int     // of a problem; 0: all
}

// OnEvaluation gives what the rules say of one after a step: a reward that rises while held-out problems do not get better is earned by
// something else than skill. Of few problems nobody can tell whether they do.
func (a *Advisor) OnEvaluation(e Evaluation) []Advice {
	if a.Steps == 0 {
		return nil
	}
	now := milestone{Step: e.Step, Reward: a.Earned / float64(a.Steps), Greedy: e.Greedy}
	a.Earned, a.Steps = 0, 0
	if a.Early == nil {
		a.Early = &now
		return nil
	}
	rise, gain := now.Reward-a.Early.Reward, now.Greedy-a.Early.Greedy
	const rule = report.NoSkill
	if e.Problems < stats.Few || rise < rewardRise || gain > flatShare*rise || !a.mayspeak(rule, e.Step) {
		return nil
	}
	tests := "more or harder tests"
	if e.MaxTests > 0 {
		tests += " (max_tests=0)"
	}
	return []Advice{{Rule: rule, Finding: fmt.Sprintf("mean reward went from %.3f to %.3f since step %d, held-out pass@1 from %.3f to %.3f",
		a.Early.Reward, now.Reward, a.Early.Step, a.Early.Greedy, now.Greedy),
		Try: "read the best completions in rollouts.jsonl for a trick; " + tests + ", or an earlier checkpoint (resume=DIR)"}}
}

func next(n int, again bool) int {
	if again {
		return n + 1
	}
	return 0
}
