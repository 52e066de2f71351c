package grpo

import (
	"fmt"
	"math"
	"runtime"
	"syscall"
	"time"

	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/sampler"
)

// Metrics is what a step did. Everything in it follows from the run's configuration and its seed:
// two runs of the same write the same. What a clock says is in Timing.
type Metrics struct {
	Step  int `json:"step"` // 1 for the first
	Epoch int `json:"epoch"`
	// Policy is the SHA-256 of the parameters that the step's completions were sampled with, and Trained
	// of those after the step. Staleness is how many updates lie between the first and the step.
	Policy    string `json:"policy_sha256"`
	Trained   string `json:"trained_sha256"`
	Staleness int    `json:"staleness"`

	MeanReward  float64 `json:"mean_reward"`
	StdReward   float64 `json:"std_reward"` // over all completions
	MeanCorrect float64 `json:"mean_correct"`
	// MeanFraction is the share of tests passed.
	MeanFraction float64 `json:"mean_fraction"`
	FormatRate   float64 `json:"format_rate"`

	GroupsTotal   int     `json:"groups_total"`
	GroupsSkipped int     `json:"groups_skipped"` // degenerate: nothing to learn
	AllGood       float64 `json:"frac_all_good"`  // groups that were right throughout
	AllBad        float64 `json:"frac_all_bad"`
	Refilled      int     `json:"groups_refilled"` // drawn beyond the step's own
	WastedTokens  int     `json:"wasted_tokens"`   // of groups that were skipped
	Datums        int     `json:"n_datums"`

	Completions      int                          `json:"completions"`
	CompletionTokens int                          `json:"completion_tokens"`
	PromptTokens     int                          `json:"prompt_tokens"`
	MeanLength       float64                      `json:"completion_length_mean"`
	MaxLength        int                          `json:"completion_length_max"`
	MinLength        int                          `json:"completion_length_min"`
	Truncated        float64                      `json:"truncated_rate"`
	Finish           map[sampler.FinishReason]int `json:"finish_reasons"`
	Verdicts         map[reward.Verdict]int       `json:"verdicts"`
	RewardErrors     int                          `json:"reward_errors"` // completions that the machine failed to score
	Excluded         int                          `json:"excluded"`      // completions left out of their groups, these among them
	Blocked          int                          `json:"blocked"`       // completions with a blocked string

	Updated    bool `json:"updated"`        // false where no group had anything to teach
	Iterations int  `json:"num_iterations"` // updates that were to be made on the same completions
	model.Stats
	Shift
	GradNorm     float64 `json:"grad_norm"`
	LearningRate float64 `json:"lr"`
	// OnPolicy is max |log p − log q| between trainer and sampler at the first update of the step: exactly 0
	// where the staleness is.
	OnPolicy float64 `json:"max_logp_diff_on_policy"`
}

// Timing is where a step's time went.
type Timing struct {
	Step      int     `json:"step"`
	Total     float64 `json:"total_s"`
	Sample    float64 `json:"sample_s"`
	Score     float64 `json:"score_s"` // after the last completion, while nothing else ran
	Train     float64 `json:"train_s"`
	TokensSec float64 `json:"sampled_tokens_per_s"`
	TrainSec  float64 `json:"trained_tokens_per_s"`
	Memory    float64 `json:"peak_memory_gb"` // of this process since it started
}

// addDraft says which policy a draft comes from, for an optimizer that has taken so many steps.
func (m *Metrics) addDraft(d *draft, updates int) {
	m.Policy, m.Staleness, m.Refilled, m.Epoch = d.policy, updates-d.updates, d.refilled, d.epoch
}

// addGroup counts one group in.
func (m *Metrics) addGroup(g *Group) {
	m.GroupsTotal++
	scored, correct := g.counts()
	if g.Degenerate() {
		m.GroupsSkipped++
		for _, r := range g.Rollouts {
			m.WastedTokens += len(r.Tokens)
		}
	}
	if scored > 0 && correct == scored {
		m.AllGood++
	}
	if scored > 0 && correct == 0 {
		m.AllBad++
	}
	m.PromptTokens += len(g.Prompt)
	for i, r := range g.Rollouts {
		m.addCompletion(r, g.Scores[i])
	}
}

func (m *Metrics) addCompletion(r sampler.Rollout, s reward.Score) {
	m.Completions++
	n := len(r.Tokens)
	m.CompletionTokens += n
	m.MaxLength = max(m.MaxLength, n)
	if m.Completions == 1 {
		m.MinLength = n
	}
	m.MinLength = min(m.MinLength, n)
	if m.Finish == nil {
		m.Finish = map[sampler.FinishReason]int{}
	}
	m.Finish[r.Finish]++
	if r.Finish == sampler.Length {
		m.Truncated++
	}
	if s.Excluded == reward.ExcludedInfra {
		m.RewardErrors++
	}
	if s.Verdict != "" {
		if m.Verdicts == nil {
			m.Verdicts = map[reward.Verdict]int{}
		}
		m.Verdicts[s.Verdict]++
	}
	if s.Blocked != "" {
		m.Blocked++
	}
	if s.Excluded != "" {
		m.Excluded++
		return
	}
	m.MeanReward += s.Reward
	m.StdReward += s.Reward * s.Reward // a sum of squares until finish
	m.MeanCorrect += s.Components.Correct
	m.MeanFraction += s.Components.Fraction
	if s.Components.Format == 0 {
		m.FormatRate++
	}
}

// finish turns sums into means.
func (m *Metrics) finish() {
	share := func(x *float64, n int) {
		if n > 0 {
			*x /= float64(n)
		}
	}
	scored := m.Completions - m.Excluded
	share(&m.MeanReward, scored)
	share(&m.StdReward, scored)
	m.StdReward = math.Sqrt(max(0, m.StdReward-m.MeanReward*m.MeanReward))
	share(&m.MeanCorrect, scored)
	share(&m.MeanFraction, scored)
	share(&m.FormatRate, scored)
	share(&m.AllGood, m.GroupsTotal)
	share(&m.AllBad, m.GroupsTotal)
	share(&m.Truncated, m.Completions)
	m.MeanLength = float64(m.CompletionTokens) / math.Max(1, float64(m.Completions))
}

// Summary is a step in one line.
func (m Metrics) Summary(t Timing) string {
	update := fmt.Sprintf("max|Δlogp| %g", m.OnPolicy)
	switch {
	case !m.Updated:
		update = "no update"
	case m.Staleness > 0:
		update = fmt.Sprintf("%d update old, max|Δlogp| %.2g", m.Staleness, m.OnPolicy)
	}
	return fmt.Sprintf("step %3d  reward %.3f  correct %.3f  format %.2f  groups %d/%d  %s  %.1f s", m.Step, m.MeanReward, m.MeanCorrect,
		m.FormatRate, m.GroupsTotal-m.GroupsSkipped, m.GroupsTotal, update, t.Total)
}

// stopwatch measures the phases of a step.
type stopwatch struct{ last time.Time }

func startWatch() *stopwatch { return &stopwatch{time.Now()} }

// lap is the time since the last lap, in seconds.
func (w *stopwatch) lap() float64 {
	now := time.Now()
	d := now.Sub(w.last)
	w.last = now
	return d.Seconds()
}

// finish fills in what follows from the phases.
func (t *Timing) finish(m *Metrics, d *draft, took time.Duration) {
	t.Step, t.Total = m.Step, took.Seconds()
	t.Memory = peakMemory()
	if d.seconds > 0 {
		t.TokensSec = float64(m.CompletionTokens) / d.seconds
	}
	if t.Train > 0 {
		t.TrainSec = float64(m.Stats.Rows*m.Iterations) / t.Train
	}
}

// peakMemory is the most memory that the process had, in GB.
func peakMemory() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	unit := 1024.0
	if runtime.GOOS == "darwin" {
		unit = 1
	}
	return float64(u.Maxrss) * unit / 1e9
}
