// Package tally counts what a step sampled and its rewards.
package tally

import (
	"cmp"
	"iter"
	"math"

	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/sampler"
)

// Rewards are means over the scored completions.
type Rewards struct {
	MeanReward  float64 `json:"mean_reward"`
	StdReward   float64 `json:"std_reward"` // over all completions
	MeanCorrect float64 `json:"mean_correct"`
	// MeanFraction is the share of tests passed.
	MeanFraction float64 `json:"mean_fraction"`
	FormatRate   float64 `json:"format_rate"`
	// Components are the means of the components that reward=weights and reward=custom have.
	Components map[string]float64 `json:"components,omitempty"`
}

// Completions counts the completions of a step.
type Completions struct {
	Completions      int                          `json:"completions"`
	CompletionTokens int                          `json:"completion_tokens"`
	PromptTokens     int                          `json:"prompt_tokens"`
	MeanLength       float64                      `json:"completion_length_mean"`
	MaxLength        int                          `json:"completion_length_max"`
	MinLength        int                          `json:"completion_length_min"`
	Truncated        float64                      `json:"truncated_rate"`
	Finish           map[sampler.FinishReason]int `json:"finish_reasons"`
	Verdicts         map[reward.Verdict]int       `json:"verdicts"`
	RewardErrors     int                          `json:"reward_errors"` // completions that could not be scored
	Excluded         int                          `json:"excluded"`      // completions left out of their groups, those included
	Blocked          int                          `json:"blocked"`       // completions with a blocked string

	FileErrors int `json:"reward_file_errors,omitempty"` // completions on which the reward file failed

	Unscored     string `json:"-"` // why the first of them could not be scored
	Checkers     int    `json:"-"` // completions on which a checker failed
	CheckerFails string `json:"-"` // the first of these failures
}

// OfRewards computes the means of scores.
func OfRewards(scores iter.Seq[reward.Score]) (r Rewards) {
	n, squares := 0, 0.0
	for s := range scores {
		if s.Excluded != "" {
			continue
		}
		n++
		r.MeanReward += s.Reward
		squares += s.Reward * s.Reward
		r.MeanCorrect += s.Components.Correct
		r.MeanFraction += s.Components.Fraction
		if s.Components.Format == 0 {
			r.FormatRate++
		}
	}
	for _, sum := range []*float64{&r.MeanReward, &squares, &r.MeanCorrect, &r.MeanFraction, &r.FormatRate} {
		*sum = Share(*sum, n)
	}
	r.StdReward = math.Sqrt(max(0, squares-r.MeanReward*r.MeanReward))
	return r
}

// Add counts a completion.
func (c *Completions) Add(tokens int, finish sampler.FinishReason, s reward.Score) {
	if c.Completions == 0 {
		c.MinLength, c.Finish = tokens, map[sampler.FinishReason]int{}
	}
	c.Completions++
	c.CompletionTokens += tokens
	c.MaxLength, c.MinLength = max(c.MaxLength, tokens), min(c.MinLength, tokens)
	c.Finish[finish]++
	if finish == sampler.Length {
		c.Truncated++
	}
	if s.Excluded != "" {
		c.Excluded++
	}
	if s.Excluded.Failed() {
		c.RewardErrors++
		c.Unscored = cmp.Or(c.Unscored, s.Note)
	}
	if s.CheckerFailed() {
		c.Checkers++
		c.CheckerFails = cmp.Or(c.CheckerFails, s.Note)
	}
	if s.Excluded == reward.ExcludedCustom {
		c.FileErrors++
	}
	if s.Verdict != "" {
		if c.Verdicts == nil {
			c.Verdicts = map[reward.Verdict]int{}
		}
		c.Verdicts[s.Verdict]++
	}
	if s.Blocked != "" {
		c.Blocked++
	}
}

// End turns sums into shares and means.
func (c *Completions) End() {
	c.Truncated = Share(c.Truncated, c.Completions)
	c.MeanLength = Share(float64(c.CompletionTokens), c.Completions)
}

// Share is sum/n, 0 for n = 0.
func Share(sum float64, n int) float64 {
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}
