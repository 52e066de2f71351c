// Package advice judges the steps and evaluations of a run by rules. Its findings say what the user should know, with the
// evidence, and what to try.
package advice

import (
	"fmt"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/report"
	"github.com/seed-7879b91d/grpo/internal/stats"
)

// RewardErrors is the rule about completions that could not be scored.
const RewardErrors = "reward errors"

// Advice is a finding about the run, with a remedy to try.
type Advice struct {
	Rule    string `json:"rule"`
	Finding string `json:"finding"` // with the evidence
	Try     string `json:"try"`
	Fatal   bool   `json:"fatal,omitempty"` // continuing would be a waste

	// What a program can do about it; may be empty.
	Remedies []Remedy `json:"-"`
	Urgency  Urgency  `json:"-"`
}

func (a Advice) String() string { return fmt.Sprintf("! %s: %s; try %s", a.Rule, a.Finding, a.Try) }

// Reward is the kind of rewards of a run.
type Reward int

const (
	Binary    Reward = iota // all tests or nothing: the remedy may be partial credit
	Graded                  // finer, by the settings or a reward file
	OwnReward               // by the caller's grader
)

// Step is the input of the rules for a step.
type Step struct {
	RewardKind       Reward
	Number           int
	Reward           float64 // the mean
	Correct          float64 // the mean
	Groups, Skipped  int     // Skipped: without contrast, so not trained on
	AllBad, AllGood  bool    // in all groups
	Updated          bool
	Updates          int // of the optimizer so far
	KL, LearningRate float64
	Format           float64 // the share of completions with a program
	Truncated        float64 // the share that was cut off at max_tokens
	Completions      int
	TimedOut         int
	Unscored         int    // could not be scored
	FileErrors       int    // of those, failures of the reward file
	Why              string // why the first could not be scored
	CheckerErrors    int    // failures of a problem's checker
	CheckerNote      string // the first of these
	Seconds, Waited  float64
	ModelJudged      bool    // a model judges completions
	Peak             float64 // the learning rate before the schedule; 0: unknown
	Steps            int     // of the run; below 1: unknown
}

// Advisor applies the rules. It keeps the little history that they need, which checkpoints save.
type Advisor struct {
	AllBad     int            `json:"all_bad"` // consecutive steps
	AllGood    int            `json:"all_good"`
	Idle       int            `json:"idle,omitempty"` // consecutive steps without a group with contrast
	BestFormat float64        `json:"best_format"`
	LastKL     float64        `json:"last_kl"`
	Swings     int            `json:"swings"`           // consecutive steps in which kl changed direction, by much
	Rising     bool           `json:"rising"`           // its last direction
	Marked     bool           `json:"marked,omitempty"` // the caller's grader called a completion correct
	Paid       int            `json:"paid,omitempty"`   // steps in which the caller's grader paid for some and called none correct
	Said       map[string]int `json:"said,omitempty"`   // by rule: the step of its last advice
	Still      int            `json:"still,omitempty"`  // consecutive steps that hardly moved the policy
	Scores     []float64      `json:"scores,omitempty"` // mean rewards of the last steps
	BestScore  float64        `json:"best_score,omitempty"`

	// Not saved, as it depends on the clock: repeated runs must save the same.
	slow     int // consecutive steps
	saidSlow bool

	// What the steps since the last evaluation earned, and the first evaluation that had steps before it.
	Earned float64    `json:"earned,omitempty"`
	Steps  int        `json:"steps,omitempty"`
	Early  *milestone `json:"early,omitempty"`
}

// milestone is an evaluation, with the mean reward of the steps before it.
type milestone struct {
	Step   int     `json:"step"`
	Reward float64 `json:"reward"`
	Greedy float64 `json:"greedy"`
}

// The thresholds of the rules.
const (
	patience      = 3                     // consecutive steps before a rule about groups speaks
	silence       = report.AdviceInterval // steps between two advices of a rule
	klSpike       = 0.05                  // of kl_pre_post_v2, or of kl_v2 if that is more
	klSwing       = 4                     // factor between consecutive steps
	klCalm        = 0.01                  // below it, nothing is wrong
	formatFall    = 0.2
	mostTruncated = 0.5
	mostTimeouts  = 0.5
	slowSandbox   = report.SlowShare // share of a step's time spent waiting for scores
	unmarked      = "nothing is called correct"
	mostErrors    = 0.2 // share of completions that could not be scored
	rewardRise    = 0.1 // of the mean reward; held-out problems should improve too
	flatShare     = 0.2 // a smaller share of that rise counts as none
)

// OnStep applies the rules to a step; it returns nothing if all is well.
func (a *Advisor) OnStep(s Step) (out []Advice) {
	say := func(rule, finding, try string) {
		if a.mayspeak(rule, s.Number) {
			remedies, urgency := remediesFor(rule, s)
			out = append(out, Advice{Rule: rule, Finding: finding, Try: try, Remedies: remedies, Urgency: urgency})
		}
	}
	a.Earned, a.Steps = a.Earned+s.Reward, a.Steps+1
	wrong := a.onGrading(s, say)
	if a.AllGood = countRun(a.AllGood, s.AllGood); a.AllGood >= patience {
		say("all groups right", fmt.Sprintf("all completions were right in %d steps in a row", a.AllGood),
			"evaluating, saving, and continuing with harder data")
	}
	if a.Idle = countRun(a.Idle, s.Groups > 0 && s.Skipped == s.Groups); a.Idle >= patience &&
		!wrong && s.CheckerErrors == 0 && a.AllGood < patience {
		how := map[Reward]string{Binary: " (reward=fraction)"}[s.RewardKind]
		finding := fmt.Sprintf("in %d steps in a row all completions of each problem got the same reward: nothing was learned", a.Idle)
		say("no group differs", finding, "more completions_per_prompt, a higher temperature, or a finer reward"+how)
	}
	if s.Updated {
		a.onPolicy(s, say)
	}
	a.onScore(s, say)
	if a.BestFormat = max(a.BestFormat, s.Format); s.Format < a.BestFormat-formatFall {
		say("format falls", fmt.Sprintf("%.0f %% of completions contain a program, down from %.0f %%", 100*s.Format, 100*a.BestFormat),
			s.unlessStill("a larger format_coef, or a lower learning_rate"))
	}
	if s.Truncated > mostTruncated {
		say("truncation", fmt.Sprintf("%.0f %% of completions end at max_tokens", 100*s.Truncated), "a larger max_tokens")
	}
	if n := s.TimedOut; s.Completions > 0 && float64(n) > mostTimeouts*float64(s.Completions) {
		say("time-outs", fmt.Sprintf("%d of %d programs ran out of time", n, s.Completions), "a larger reward_timeout, or easier problems")
	}
	if a.slow = countRun(a.slow, s.Seconds > 0 && s.Waited/s.Seconds > slowSandbox); a.slow >= patience && !a.saidSlow {
		a.saidSlow = true // it is about the machine: once is enough
		rule, try := report.SlowSandbox, "pipeline=full, more sandbox_slots if cores are idle, or fewer tests (max_tests)"
		if s.ModelJudged {
			rule, try = report.SlowScores, "pipeline=full, more judge_slots if the judge has capacity, or a faster judge"
		}
		out = append(out, Advice{Rule: rule, Finding: fmt.Sprintf("%.0f %% of the step was spent waiting for scores", 100*s.Waited/s.Seconds),
			Try: try})
	}
	if n := s.Unscored; n > 0 {
		finding, try := fmt.Sprintf("%d of %d completions could not be scored", n, s.Completions), remedy(s.Why)
		if s.Why != "" {
			finding += "; the first: " + s.Why
		}
		if s.FileErrors > 0 && !strings.HasPrefix(s.Why, "judge: ") { // Why is about the first
			try = "fixing the reward file: grpo reward --reward-file tests it on completions of your own"
		}
		out = append(out, Advice{Rule: RewardErrors, Fatal: TooMany(n, s.Completions), Finding: finding, Try: try})
	}
	return out
}

// TooMany reports whether so many completions of a step could not be scored that the run should end.
func TooMany(unscored, completions int) bool {
	return float64(unscored)/float64(completions) > mostErrors
}

// remedy is what to do about a completion that was not scored, by the error text: grpo doctor checks the sandbox, but not other
// people's servers.
func remedy(why string) string {
	switch {
	case strings.HasPrefix(why, "judge: ") && strings.Contains(why, "judge_budget"):
		return "a larger judge_budget, or 0 for no limit"
	case strings.HasPrefix(why, "judge: "):
		return "fixing the judge first: grpo reward --judge-url tests it on completions of your own"
	case strings.HasPrefix(why, "the OpenEnv server "), strings.Contains(why, "the MCP server "): // after the tool's name
		return "fixing that server first"
	case strings.HasPrefix(why, "the reward is "), strings.HasPrefix(why, "the component "):
		return "rewards of ordinary size: grpo reward tests yours on completions of your own"
	case strings.HasPrefix(why, "the environment took longer "):
		return "a larger conversation_seconds, or a faster environment"
	case strings.Contains(why, "(pids.max)"), strings.Contains(why, "(ulimit -u)"):
		return "allowing more processes, as that says"
	}
	return "fixing that first: grpo doctor checks the sandbox"
}

// onGrading applies the rules about grading. It reports whether all completions are really wrong: where a checker failed
// they may be right, and the caller's grader need not set correctness at all.
func (a *Advisor) onGrading(s Step, say func(rule, finding, try string)) (wrong bool) {
	if s.CheckerErrors > 0 {
		say("checker errors", fmt.Sprintf("checkers failed on %d of %d answers, which count as wrong; the first: %s",
			s.CheckerErrors, s.Completions, s.CheckerNote), "fixing the checker in the data: grpo reward tests it on completions of your own")
	}
	if s.RewardKind == OwnReward {
		a.Marked = a.Marked || s.Correct > 0
		if a.Paid = countRun(a.Paid, s.Reward > 0 && !a.Marked); a.Paid >= patience && a.Said[unmarked] == 0 {
			say(unmarked, "your own grader gives rewards, but has never marked a completion as correct: pass@1 stays 0 and means nothing",
				"setting Components.Correct to 1 in the Score of right completions")
		}
	}
	a.AllBad = countRun(a.AllBad, s.AllBad)
	wrong = a.AllBad >= patience && s.Skipped == s.Groups && s.CheckerErrors == 0 && (s.RewardKind != OwnReward || a.Marked)
	if wrong {
		credit := map[Reward]string{Binary: "partial credit (reward=fraction), "}[s.RewardKind]
		say("all groups wrong", fmt.Sprintf("no completion was right in %d steps in a row", a.AllBad),
			"easier problems (max_prompt_chars), "+credit+"or more room (max_tokens)")
	}
	return wrong
}

// swings reports whether kl changed by much, and in the other direction than the last time.
func (a *Advisor) swings(kl float64) bool {
	up, down := kl > klSwing*a.LastKL, kl*klSwing < a.LastKL
	if !up && !down || max(kl, a.LastKL) < klCalm {
		return false
	}
	turned := up != a.Rising
	a.Rising = up
	return turned
}

// mayspeak reports whether a rule may speak: after it spoke it is silent for a while.
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

// Evaluation is the input of the rules for an evaluation.
type Evaluation struct {
	Step     int
	Problems int     // judged
	Greedy   float64 // pass@1
	MaxTests int     // per problem; 0: all
}

// OnEvaluation applies the rules to an evaluation after a step. A reward that rises while held-out problems do not improve is earned by
// something else than skill. With few problems one cannot tell.
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
	if e.Problems < stats.MinProblems || rise < rewardRise || gain > flatShare*rise || !a.mayspeak(rule, e.Step) {
		return nil
	}
	tests := "more or harder tests"
	if e.MaxTests > 0 {
		tests += " (max_tests=0)"
	}
	return []Advice{{Rule: rule, Finding: fmt.Sprintf("mean reward went from %.3f to %.3f since step %d, held-out pass@1 from %.3f to %.3f",
		a.Early.Reward, now.Reward, a.Early.Step, a.Early.Greedy, now.Greedy),
		Try: "reading the best completions in rollouts.jsonl: do they exploit the reward? " + tests + ", or an earlier checkpoint (resume=DIR)"}}
}

func countRun(n int, again bool) int {
	if again {
		return n + 1
	}
	return 0
}
