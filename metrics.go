package grpo

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/learning"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/sampler"
)

// Metrics is what a step did. Everything in it follows from the run's configuration and its seed:
// two runs of the same write the same. What a clock says is in Timing.
type Metrics struct {
	Step int `json:"step"` // 1 for the first
	Provenance
	RewardStats
	GroupStats
	CompletionStats
	Conversations *ConversationStats `json:"conversations,omitempty"`
	Update
}

// Update is what the updates of a step did to the policy, and Drift how far that moved it.
type (
	Update = learning.Update
	Drift  = learning.Drift
)

// Provenance is where the completions of a step come from.
type Provenance struct {
	Epoch int `json:"epoch"`
	// Policy is the SHA-256 of the parameters that the step's completions were sampled with, and Trained
	// of those after the step. Staleness is how many updates lie between the first and the step.
	Policy    string `json:"policy_sha256"`
	Trained   string `json:"trained_sha256"`
	Staleness int    `json:"staleness"`
}

// RewardStats are means over the completions that were scored.
type RewardStats struct {
	MeanReward  float64 `json:"mean_reward"`
	StdReward   float64 `json:"std_reward"` // over all completions
	MeanCorrect float64 `json:"mean_correct"`
	// MeanFraction is the share of tests passed.
	MeanFraction float64 `json:"mean_fraction"`
	FormatRate   float64 `json:"format_rate"`
	// Components are the means of those that reward=weights and custom name.
	Components map[string]float64 `json:"components,omitempty"`
}

// GroupStats count the groups of a step.
type GroupStats struct {
	GroupsTotal   int     `json:"groups_total"`
	GroupsSkipped int     `json:"groups_skipped"` // degenerate: nothing to learn
	AllGood       float64 `json:"frac_all_good"`  // groups that were right throughout
	AllBad        float64 `json:"frac_all_bad"`
	Refilled      int     `json:"groups_refilled"` // drawn beyond the step's own
	WastedTokens  int     `json:"wasted_tokens"`   // of groups that were skipped
	Datums        int     `json:"n_datums"`
}

// CompletionStats count the completions of a step.
type CompletionStats struct {
	Completions      int                          `json:"completions"`
	CompletionTokens int                          `json:"completion_tokens"`
	PromptTokens     int                          `json:"prompt_tokens"`
	MeanLength       float64                      `json:"completion_length_mean"`
	MaxLength        int                          `json:"completion_length_max"`
	MinLength        int                          `json:"completion_length_min"`
	Truncated        float64                      `json:"truncated_rate"`
	Finish           map[sampler.FinishReason]int `json:"finish_reasons"`
	Verdicts         map[reward.Verdict]int       `json:"verdicts"`
	RewardErrors     int                          `json:"reward_errors"` // completions that nobody could score
	Excluded         int                          `json:"excluded"`      // completions left out of their groups, these among them
	Blocked          int                          `json:"blocked"`       // completions with a blocked string

	FileErrors int `json:"reward_file_errors,omitempty"` // completions that the reward file failed on

	unscored     string // why the first of them could not be scored
	checkers     int    // completions that a checker failed on
	checkerFails string // how it failed on the first
}

// metrics are those of a step that is done.
func metrics(p plan, b *rolloutBatch, groups []Group, datums []model.Datum, u Update) Metrics {
	m := Metrics{Step: p.step, RewardStats: rewardStats(groups), GroupStats: groupStats(groups),
		CompletionStats: completionStats(groups), Update: u}
	m.Provenance = Provenance{Epoch: b.epoch, Policy: b.policy, Trained: u.After, Staleness: p.updates - b.updates}
	m.Refilled, m.Datums, m.Conversations = b.refilled, len(datums), conversations(groups)
	return m
}

// conversations are those of groups that were judged, nil where there are none.
func conversations(groups []Group) *ConversationStats {
	var s ConversationStats
	for _, g := range groups {
		for _, r := range g.Rollouts {
			if r.Conversation != nil && !r.Score.Excluded.Failed() {
				s.Add(r.Conversation, r.Score.Components.Correct == 1)
			}
		}
	}
	return s.Whole()
}

func rewardStats(groups []Group) (s RewardStats) {
	n, squares := 0, 0.0
	for _, g := range groups {
		for _, r := range g.Rollouts {
			if r.Score.Excluded != "" {
				continue
			}
			n++
			s.MeanReward += r.Score.Reward
			squares += r.Score.Reward * r.Score.Reward
			s.MeanCorrect += r.Score.Components.Correct
			s.MeanFraction += r.Score.Components.Fraction
			if r.Score.Components.Format == 0 {
				s.FormatRate++
			}
		}
	}
	for _, sum := range []*float64{&s.MeanReward, &squares, &s.MeanCorrect, &s.MeanFraction, &s.FormatRate} {
		*sum = share(*sum, n)
	}
	s.StdReward = math.Sqrt(max(0, squares-s.MeanReward*s.MeanReward))
	return s
}

func groupStats(groups []Group) (s GroupStats) {
	s.GroupsTotal = len(groups)
	for _, g := range groups {
		if g.Degenerate() {
			s.GroupsSkipped++
			for _, r := range g.Rollouts {
				s.WastedTokens += r.drawn()
			}
		}
		switch scored, correct := g.scored(); {
		case scored == 0:
		case correct == scored:
			s.AllGood++
		case correct == 0:
			s.AllBad++
		}
	}
	s.AllGood, s.AllBad = share(s.AllGood, len(groups)), share(s.AllBad, len(groups))
	return s
}

func completionStats(groups []Group) (s CompletionStats) {
	for _, g := range groups {
		s.PromptTokens += len(g.Tokens)
		for _, r := range g.Rollouts {
			s.add(r)
		}
	}
	s.Truncated = share(s.Truncated, s.Completions)
	s.MeanLength = share(float64(s.CompletionTokens), s.Completions)
	return s
}

func (s *CompletionStats) add(r Scored) {
	n := r.drawn()
	if s.Completions == 0 {
		s.MinLength, s.Finish = n, map[sampler.FinishReason]int{}
	}
	s.Completions++
	s.CompletionTokens += n
	s.MaxLength, s.MinLength = max(s.MaxLength, n), min(s.MinLength, n)
	s.Finish[r.Finish]++
	if r.Finish == sampler.Length {
		s.Truncated++
	}
	if r.Score.Excluded != "" {
		s.Excluded++
	}
	if r.Score.Excluded.Failed() {
		s.RewardErrors++
		s.unscored = cmp.Or(s.unscored, r.Score.Note)
	}
	if r.Score.CheckerFailed() {
		s.checkers++
		s.checkerFails = cmp.Or(s.checkerFails, r.Score.Note)
	}
	if r.Score.Excluded == reward.ExcludedCustom {
		s.FileErrors++
	}
	if r.Score.Verdict != "" {
		if s.Verdicts == nil {
			s.Verdicts = map[reward.Verdict]int{}
		}
		s.Verdicts[r.Score.Verdict]++
	}
	if r.Score.Blocked != "" {
		s.Blocked++
	}
}

// share is a sum over n as a mean, 0 of nothing.
func share(sum float64, n int) float64 {
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}

// Summary is a step in one line.
func (m Metrics) Summary(t Timing) string { return strings.Join(m.Parts(t), "  ") }

// Parts are a step in words, the most important first.
func (m Metrics) Parts(t Timing) []string {
	parts := []string{fmt.Sprintf("step %3d", m.Step), fmt.Sprintf("reward %.3f", m.MeanReward), fmt.Sprintf("correct %.3f", m.MeanCorrect),
		fmt.Sprintf("format %.2f", m.FormatRate), fmt.Sprintf("groups %d/%d", m.GroupsTotal-m.GroupsSkipped, m.GroupsTotal)}
	if m.RewardErrors > 0 {
		parts = append(parts, fmt.Sprintf("%d not scored", m.RewardErrors))
	}
	if m.checkers > 0 {
		parts = append(parts, fmt.Sprintf("checkers failed on %d", m.checkers))
	}
	switch {
	case !m.Updated:
		parts = append(parts, "no update")
	case m.Staleness > 0:
		parts = append(parts, fmt.Sprintf("%d update old, max|Δlogp| %.2g", m.Staleness, m.OnPolicy))
	default:
		parts = append(parts, fmt.Sprintf("max|Δlogp| %g", m.OnPolicy))
	}
	if t.RewardFile > 0 {
		parts = append(parts, fmt.Sprintf("reward file %.2g s a call", t.RewardFile))
	}
	return append(parts, fmt.Sprintf("%.1f s", t.Total))
}

func finite(x float64) bool { return x-x == 0 }
