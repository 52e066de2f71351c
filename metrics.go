package grpo

import (
	"fmt"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/autopilot"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/learning"
	"github.com/seed-7879b91d/grpo/internal/plural"
	"github.com/seed-7879b91d/grpo/internal/tally"
	"github.com/seed-7879b91d/grpo/model"
)

// Metrics are the results of a step. They follow from configuration and seed alone, so that two runs of the same
// configuration write the same bytes. Whatever depends on the clock is in Timing.
type Metrics struct {
	Step int `json:"step"` // 1 for the first
	Provenance
	RewardStats
	GroupStats
	CompletionStats
	Conversations *ConversationStats `json:"conversations,omitempty"`
	// Autopilot are the settings that the autopilot has changed from the run's own.
	Autopilot autopilot.Values `json:"autopilot,omitempty"`
	Update
}

// Update has the statistics of a step's optimizer updates, and Drift how far they moved the policy.
type (
	Update = learning.Update
	Drift  = learning.Drift
)

// The parts of Metrics: which policy sampled the completions, means over those that were scored, counts of groups, and
// counts of all completions.
type (
	Provenance      = tally.Provenance
	RewardStats     = tally.Rewards
	GroupStats      = tally.Groups
	CompletionStats = tally.Completions
)

// metrics puts together the metrics of a finished step.
func metrics(p plan, b *rolloutBatch, groups []Group, datums []model.Datum, u Update) Metrics {
	m := Metrics{Step: p.step, RewardStats: tally.OfRewards(scores(groups)), GroupStats: groupStats(groups), Update: u}
	m.Provenance = Provenance{Epoch: b.epoch, Policy: b.policy, Trained: u.After, Staleness: p.updates - b.updates}
	for _, g := range groups {
		m.PromptTokens += len(g.Tokens)
		for _, r := range g.Rollouts {
			m.CompletionStats.Add(r.drawn(), r.Finish, r.Score)
		}
	}
	m.CompletionStats.End()
	m.Refilled, m.Datums, m.Conversations = b.refilled, len(datums), conversations(groups)
	return m
}

// conversations are statistics of the conversations that were judged, nil if there are none.
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

func groupStats(groups []Group) (s GroupStats) {
	s.GroupsTotal = len(groups)
	for _, g := range groups {
		if g.Degenerate() {
			s.GroupsSkipped++
			for _, r := range g.Rollouts {
				s.WastedTokens += r.drawn()
			}
		}
		switch scored, correct := g.countScored(); {
		case scored == 0:
		case correct == scored:
			s.AllGood++
		case correct == 0:
			s.AllBad++
		}
	}
	s.AllGood, s.AllBad = tally.Share(s.AllGood, len(groups)), tally.Share(s.AllBad, len(groups))
	return s
}

// Summary is a step in one line.
func (m Metrics) Summary(t Timing) string { return strings.Join(m.Parts(t), "  ") }

// Parts are the phrases of Summary, the most important first.
func (m Metrics) Parts(t Timing) []string {
	parts := []string{fmt.Sprintf("step %3d", m.Step), "reward " + display.Reward(m.MeanReward), fmt.Sprintf("correct %.3f", m.MeanCorrect),
		fmt.Sprintf("format %.2f", m.FormatRate), fmt.Sprintf("groups %d/%d", m.GroupsTotal-m.GroupsSkipped, m.GroupsTotal)}
	if m.RewardErrors > 0 {
		parts = append(parts, fmt.Sprintf("%d not scored", m.RewardErrors))
	}
	if m.Checkers > 0 {
		parts = append(parts, fmt.Sprintf("checkers failed on %d", m.Checkers))
	}
	switch {
	case !m.Updated:
		parts = append(parts, "no update")
	case m.Staleness > 0:
		parts = append(parts, fmt.Sprintf("%s old, max|Δlogp| %.2g", plural.Of(m.Staleness, "update"), m.OnPolicy))
	default:
		parts = append(parts, fmt.Sprintf("max|Δlogp| %g", m.OnPolicy))
	}
	if t.RewardFile > 0 {
		parts = append(parts, fmt.Sprintf("reward file %.2g s a call", t.RewardFile))
	}
	return append(parts, fmt.Sprintf("%.1f s", t.Total))
}
