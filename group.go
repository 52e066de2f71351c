package grpo

import (
	"cmp"
	"iter"
	"slices"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/stats"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/sampler"
)

// Prompt is a problem rendered into the tokens that the model is given.
type Prompt struct {
	Index   int // among the prompts of the step
	Problem data.Problem
	Tokens  []int32 // [T]
}

// Rollout is one completion of a prompt, or one conversation. It carries its own indices, as rollouts finish in any order.
type Rollout struct {
	Group, Sample int       // sample Sample of the prompt with index Group
	Tokens        []int32   // [T]
	LogProbs      []float32 // [T] under the policy that drew the tokens
	Finish        sampler.FinishReason
	Text          string        // of the tokens
	Conversation  *Conversation // nil: a single turn, in which every token was drawn
}

// drawn is how many of its tokens the policy drew.
func (r Rollout) drawn() int { return r.Conversation.Drawn(len(r.Tokens)) }

// Scored is a rollout with its score.
type Scored struct {
	Rollout
	Score reward.Score
}

// Group is a prompt with its completions: advantages compare these with each other only.
type Group struct {
	Prompt
	Rollouts   []Scored  // [G], by sample
	Advantages []float64 // [G]; 0 where the score is excluded. nil in an evaluation

	tokens       [][]float64 // [G][T]: an advantage for each token; nil: each token has that of its completion
	positiveOnly bool        // train only on completions with an advantage above 0
}

// gather sorts scored rollouts into groups by prompt, and each group by sample.
func gather(prompts []Prompt, scored []Scored) []Group {
	groups := make([]Group, len(prompts))
	for i, p := range prompts {
		groups[i].Prompt = p
	}
	for _, s := range scored {
		groups[s.Group].Rollouts = append(groups[s.Group].Rollouts, s)
	}
	for _, g := range groups {
		slices.SortFunc(g.Rollouts, func(a, b Scored) int { return cmp.Compare(a.Sample, b.Sample) })
	}
	return groups
}

// Degenerate reports whether all advantages are zero, as when all rewards are equal: the group gives no gradient.
func (g *Group) Degenerate() bool { return stats.Negligible(g.Advantages) }

// datums makes training sequences of the completions that trainable yields. The tokens of the prompt are masked.
func datums(groups []Group) []model.Datum {
	var all []model.Datum
	for g, i := range trainable(groups) {
		all = append(all, g.datum(i))
	}
	return all
}

// datum is completion i with its prompt as a training sequence.
func (g *Group) datum(i int) model.Datum {
	r := g.Rollouts[i]
	tokens := slices.Concat(g.Tokens, r.Tokens)
	logprobs := append(make([]float32, len(g.Tokens)-1, len(tokens)-1), r.LogProbs...)
	one := 0.0
	if g.Advantages != nil {
		one = g.Advantages[i]
	}
	d := model.NewConversation(tokens, r.Conversation.Spans(len(g.Tokens), len(r.Tokens)), logprobs, float32(one))
	if g.tokens != nil && g.tokens[i] != nil {
		at := 0
		for t, counts := range d.Mask {
			if counts {
				d.Advantages[t], at = float32(g.tokens[i][at]), at+1
			}
		}
	}
	return d
}

// trainable yields the completions to train on, each as its group and its index there.
func trainable(groups []Group) iter.Seq2[*Group, int] {
	return func(yield func(*Group, int) bool) {
		for k := range groups {
			g := &groups[k]
			for i := range g.Rollouts {
				if g.hasSignal(i) && g.keptBySign(i) && !yield(g, i) {
					return
				}
			}
		}
	}
}

// hasSignal reports whether completion i counts and its group gives a gradient.
func (g *Group) hasSignal(i int) bool { return g.Rollouts[i].Score.Excluded == "" && !g.Degenerate() }

// keptBySign reports whether positiveOnly lets the run train on completion i.
func (g *Group) keptBySign(i int) bool { return g.Advantages[i] > 0 || !g.positiveOnly }

// scores yields the scores of all completions.
func scores(groups []Group) iter.Seq[reward.Score] {
	return func(yield func(reward.Score) bool) {
		for _, g := range groups {
			for _, r := range g.Rollouts {
				if !yield(r.Score) {
					return
				}
			}
		}
	}
}

// countScored counts the completions that are not excluded, and those of them that passed all tests.
func (g *Group) countScored() (scored, correct int) {
	return g.count(func(s reward.Score) bool { return s.Excluded == "" })
}

// countJudged is countScored for an evaluation, where a truncated completion counts, as wrong.
func (g *Group) countJudged() (judged, correct int) {
	return g.count(func(s reward.Score) bool { return s.Excluded != reward.ExcludedInfra })
}

func (g *Group) count(counts func(reward.Score) bool) (n, correct int) {
	for _, r := range g.Rollouts {
		if counts(r.Score) {
			n++
			correct += int(r.Score.Components.Correct)
		}
	}
	return n, correct
}

// bestOf is the highest reward among the first k completions that were judged, 0 if none of these has a reward.
func (g *Group) bestOf(k int) (best float64) {
	none := true
	for _, r := range g.Rollouts {
		if k == 0 || r.Score.Excluded == reward.ExcludedInfra {
			continue
		}
		if k--; r.Score.Excluded == "" && (none || r.Score.Reward > best) {
			best, none = r.Score.Reward, false
		}
	}
	return best
}
