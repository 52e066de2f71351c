package advice

import (
	"fmt"
	"math"

	"github.com/seed-7879b91d/grpo/internal/stats"
)

// Remedy is a change of a setting that a program can make in answer to a finding.
type Remedy struct {
	Setting string  `json:"setting"`
	Factor  float64 `json:"factor"`          // times the current value
	Begin   float64 `json:"begin,omitempty"` // the new value if it is 0
}

// Urgency is how soon a finding must be acted on.
type Urgency int

const (
	Calm Urgency = iota // when there is nothing else to do
	Soon                // measure now, then act
	Now                 // at once: the policy is broken
)

// How far a step moves a policy is measured independently of the model: kl is per token, so √(2·kl) is about the change
// of a token's log-probability. Steps in one direction add up, so the length of a run says what is too little.
const (
	klLeap   = 0.3   // at least half a nat, in one step
	klGoal   = 0.003 // target of a smaller rate
	tooShort = 1.0   // nats of all steps of a run: the policy hardly moves
	enough   = 3.0   // target of a larger rate, in nats

	openEnded = 200 // steps assumed for a run without an end
	shortRun  = 100 // shorter runs are taken to be tests, of this length

	mostDown, leastDown = 1.0 / 16, 1.0 / 2 // factors of a learning rate
	mostUp, leastUp     = 16.0, 2.0

	earlyUpdates = 5

	solved     = 0.9 // share of completions: the policy need not move
	window     = 5   // steps of the moving average
	fallsBelow = 0.5 // factor of the best average
	fallsBy    = 0.1
)

// rateForGoalKL is the factor for a rate, so that kl becomes about klGoal: kl is proportional to the square of the rate.
func rateForGoalKL(kl float64) float64 {
	return min(max(math.Sqrt(klGoal/max(kl, klGoal)), mostDown), leastDown)
}

// pace is how many nats the steps of a run add up to, at most.
func (s Step) pace() float64 {
	steps := max(s.Steps, shortRun)
	if s.Steps <= 0 {
		steps = openEnded
	}
	return float64(steps) * math.Sqrt(2*s.KL)
}

// Early reports whether a step is one of the optimizer's first, which are larger than later ones: Adam's moments average
// over few gradients yet.
func (s Step) Early() bool { return s.Updates <= earlyUpdates }

// Pace is how many nats the steps of a run add up to at the full learning rate, at most; 0 if the step does not tell.
func (s Step) Pace() float64 {
	if s.Early() || !s.Updated || !(s.KL > 0) || s.LearningRate <= 0 {
		return 0
	}
	return s.pace() * max(s.Peak/s.LearningRate, 1)
}

// RateFactor is the factor for a learning rate with which a run of that pace reaches enough.
func RateFactor(pace float64) float64 { return min(enough/pace, mostUp) }

// onPolicy applies the rules about how far a step moved the policy.
func (a *Advisor) onPolicy(s Step, say func(rule, finding, try string)) {
	down := fmt.Sprintf("learning_rate=%.2g, or a lower temperature", s.LearningRate*leastDown)
	away := fmt.Sprintf("learning_rate=%.2g, or a lower temperature; and go back to the checkpoint before (resume=DIR)",
		s.LearningRate*rateForGoalKL(s.KL))
	switch {
	case s.KL > klLeap:
		say("policy leaps", fmt.Sprintf("one step moved the policy by kl %.3g: it is a different policy now", s.KL), away)
	case s.KL > klSpike && s.KL > klSwing*a.LastKL:
		try := down
		if s.Early() {
			try = away
		}
		finding := fmt.Sprintf("a step moved the policy by kl %.3g", s.KL)
		if a.LastKL > 0 {
			finding += fmt.Sprintf(", the one before by %.3g", a.LastKL)
		}
		say("policy jumps", finding, try)
	}
	if a.Swings = countRun(a.Swings, a.swings(s.KL)); a.Swings >= patience {
		say("policy swings", fmt.Sprintf("kl rose and fell in turn %d times in a row, and is %.3g now", a.Swings, s.KL), down)
	}
	if s.LearningRate == 0 && s.Peak > 0 && s.Steps < 1 { // a run with an end never gets there
		say("schedule is over", "the learning rate fell to 0, but the run continues: its steps change nothing",
			"to stop it, or a larger scheduler_total_steps")
	}
	full := s.Peak == 0 || s.LearningRate >= s.Peak/2 // neither warming up nor at the end of a schedule
	if a.Still = countRun(a.Still, full && s.pace() < tooShort && s.Correct < solved); a.Still >= patience {
		finding := fmt.Sprintf("%d steps in a row moved the policy by about kl %.2g: all steps of the run change it by at most "+
			"%.2g nats a token", a.Still, s.KL, s.pace())
		if s.KL == 0 {
			finding = fmt.Sprintf("%d updates in a row hardly changed the policy, and the last changed nothing", a.Still)
		}
		try := fmt.Sprintf("learning_rate=%.2g", s.LearningRate*rateToMove(s))
		if s.LearningRate == 0 {
			try = "a learning_rate above 0"
		}
		say("policy hardly moves", finding, try)
	}
	a.LastKL = s.KL
}

// rateToMove is the factor for a rate with which the steps of a run add up to enough.
func rateToMove(s Step) float64 {
	return min(max(enough/max(s.pace(), enough/mostUp), leastUp), mostUp)
}

// unlessStill is what to try, unless the step did not move the policy: then any change is chance.
func (s Step) unlessStill(try string) string {
	if s.Updated && s.KL == 0 {
		return "a higher learning_rate: the policy does not change, so this is chance"
	}
	return try
}

// onScore applies the rule about rewards.
func (a *Advisor) onScore(s Step, say func(rule, finding, try string)) {
	score, what := s.Correct, "share of right completions"
	if s.RewardKind == OwnReward && !a.Marked {
		score, what = s.Reward, "the mean reward"
	}
	if a.Scores = append(a.Scores, score); len(a.Scores) > window {
		a.Scores = a.Scores[1:]
	}
	if len(a.Scores) < window {
		return
	}
	now := stats.Mean(a.Scores)
	if a.BestScore = max(a.BestScore, now); now < fallsBelow*a.BestScore && now < a.BestScore-fallsBy {
		say("score falls", fmt.Sprintf("%s: %.3f over %d steps, %.3f at best", what, now, window, a.BestScore),
			s.unlessStill("an earlier checkpoint (resume=DIR) and a lower learning_rate"))
	}
}

// remediesFor are the remedies for a rule that a program can act on, the likeliest first.
func remediesFor(rule string, s Step) (remedies []Remedy, u Urgency) {
	rate := func(factor float64) Remedy { return Remedy{Setting: "learning_rate", Factor: factor} }
	half := rate(leastDown)
	warmer, more := Remedy{Setting: "temperature", Factor: 1.2}, Remedy{Setting: "completions_per_prompt", Factor: 1.5}
	switch rule {
	case "policy leaps":
		return []Remedy{rate(rateForGoalKL(s.KL))}, Now
	case "policy jumps": // one large step says little about the rate; the score shows what it did
		if s.Early() { // there are no other steps yet
			return []Remedy{rate(rateForGoalKL(s.KL))}, Now
		}
		return []Remedy{half}, Soon
	case "policy swings":
		return []Remedy{half, {Setting: "temperature", Factor: 0.8}}, Soon
	case "score falls":
		return []Remedy{half}, Soon
	case "policy hardly moves":
		return []Remedy{rate(rateToMove(s))}, Calm
	case "format falls":
		return []Remedy{{Setting: "format_coef", Factor: 2, Begin: 0.1}, half}, Soon
	case "truncation":
		return []Remedy{{Setting: "overlong_penalty", Factor: 2, Begin: 0.2}, half}, Soon
	case "no group differs":
		return []Remedy{warmer, more}, Soon
	case "all groups wrong":
		return []Remedy{more, warmer}, Soon
	}
	return nil, Calm
}
