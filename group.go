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

// Prompt is a problem as the model is asked it.
type Prompt struct {
	Index   int // among the prompts that are asked together
	Problem data.Problem
	Tokens  []int32 // [T]
}

// Rollout is one completion of a prompt, or one conversation. It says itself which: nothing hangs on where it stands.
type Rollout struct {
	Group, Sample int       // sample Sample of the prompt with index Group
	Tokens        []int32   // [T]
	LogProbs      []float32 // [T] of the tokens, as they were drawn
	Finish        sampler.FinishReason
	Text          string        // of the tokens
	Conversation  *Conversation // where the tokens are one; nil: all were drawn
}

// drawn is how many of its tokens the policy drew.
func (r Rollout) drawn() int { return r.Conversation.Drawn(len(r.Tokens)) }

// Scored is a rollout with what it earned.
type Scored struct {
	Rollout
	Score reward.Score
}

// Group is a prompt with its completions, which are compared with each other alone.
type Group struct {
	Prompt
	Rollouts   []Scored  // [G], by sample
	Advantages []float64 // [G]; zero where the score is left out. nil in an evaluation

	tokens       [][]float64 // [G][T]: the advantages of tokens; nil where they are those of their completions
	positiveOnly bool        // completions with an advantage above 0 alone are learned from
}

// gather sorts scored rollouts into the groups of their prompts.
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

// Degenerate reports whether the group agrees with itself: it teaches nothing.
func (g *Group) Degenerate() bool { return stats.Negligible(g.Advantages) }

// datums are the completions to learn from: those of groups that disagree, less what was left out. The prompt is read but teaches nothing.
func datums(groups []Group) []model.Datum {
	var all []model.Datum
	for g, i := range taught(groups) {
		all = append(all, g.datum(i))
	}
	return all
}

// datum is completion i as something to learn from.
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

// taught are the completions to learn from: a group, and the index in it.
func taught(groups []Group) iter.Seq2[*Group, int] {
	return func(yield func(*Group, int) bool) {
		for k := range groups {
			g := &groups[k]
			for i := range g.Rollouts {
				if g.teaches(i) && g.wanted(i) && !yield(g, i) {
					return
				}
			}
		}
	}
}

// teaches tells whether completion i has something to teach.
func (g *Group) teaches(i int) bool { return g.Rollouts[i].Score.Excluded == "" && !g.Degenerate() }

// wanted tells whether the run learns from a completion with an advantage such as that of completion i.
func (g *Group) wanted(i int) bool { return g.Advantages[i] > 0 || !g.positiveOnly }

// scores are those of all completions.
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

// scored counts the completions that were not left out, and those that passed all tests.
func (g *Group) scored() (scored, correct int) {
	return g.count(func(s reward.Score) bool { return s.Excluded == "" })
}

// judged is scored for an evaluation: a completion that was cut off is judged, and wrong.
func (g *Group) judged() (judged, correct int) {
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

// best is the best reward among the first k completions that were judged, 0 where none of these has one.
func (g *Group) best(k int) (best float64) {
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
