package episode

import (
	"context"
	"math"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/reward"
)

// Healing is the environment of a model that may fix its program: each turn is graded, and the answer to a wrong program says what is
// wrong with it.
type Healing struct {
	Grader reward.Grader
	// Tell writes the message to the model about a wrong program.
	Tell func(ctx context.Context, p *data.Problem, said Said, s reward.Score) (string, error)
	// Reward is the reward of the episode, given the rewards of its turns so far.
	Reward func(rewards []float64) float64
}

// Open opens an episode. It runs nothing.
func (h Healing) Open(_ context.Context, p *data.Problem) (Episode, error) {
	return &healEpisode{verdict: verdict{graded{h.Grader}, p}, Healing: h}, nil
}

// healEpisode is an episode of Healing.
type healEpisode struct {
	verdict
	Healing
	rewards []float64
}

func (p *healEpisode) Turn(ctx context.Context, said Said) (Answer, error) {
	a, err := p.verdict.Turn(ctx, said)
	if err != nil {
		return a, err
	}
	worth := a.Score.Reward
	if a.Score.Excluded != "" {
		worth = 0 // the reward of an excluded score means nothing
	}
	p.rewards = append(p.rewards, worth)
	a.Reward, a.Over = p.Healing.Reward(p.rewards), a.Score.Components.Correct == 1
	if a.Over || said.Last {
		return a, nil
	}
	text, err := p.Tell(ctx, p.problem, said, *a.Score)
	a.Messages = []chat.Message{{Role: "user", Content: text}}
	return a, err
}

// LastReward returns the reward of the last turn.
func LastReward(rewards []float64) float64 { return rewards[len(rewards)-1] }

// BestReward returns the best reward of all turns.
func BestReward(rewards []float64) float64 {
	best := math.Inf(-1)
	for _, r := range rewards {
		best = max(best, r)
	}
	return best
}

// DiscountedReward returns the reward of the last turn times discount for each turn before it. A negative reward is not discounted, or
// it would pay to fail later.
func DiscountedReward(discount float64) func(rewards []float64) float64 {
	return func(rewards []float64) float64 {
		last := LastReward(rewards)
		if last <= 0 {
			return last
		}
		return last * math.Pow(discount, float64(len(rewards)-1))
	}
}
