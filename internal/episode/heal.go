package episode

import (
	"context"
	"math"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/reward"
)

// Healing is the environment of a model that may mend its program: each turn is graded, and one that is not right is answered by what
// is wrong with it.
type Healing struct {
	Grader reward.Grader
	// Tell words what the model is told of a turn that is not right.
	Tell func(ctx context.Context, p *data.Problem, said Said, s reward.Score) (string, error)
	// Reward is that of the episode, by the rewards of its turns so far.
	Reward func(rewards []float64) float64
}

// Open opens an episode. It starts nothing.
func (h Healing) Open(_ context.Context, p *data.Problem) (Episode, error) {
	return &patient{verdict: verdict{graded{h.Grader}, p}, Healing: h}, nil
}

// patient is a program that is not right yet.
type patient struct {
	verdict
	Healing
	rewards []float64
}

func (p *patient) Turn(ctx context.Context, said Said) (Answer, error) {
	a, err := p.verdict.Turn(ctx, said)
	if err != nil {
		return a, err
	}
	worth := a.Score.Reward
	if a.Score.Excluded != "" {
		worth = 0 // it means nothing there
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

// LastReward is the reward of the last turn.
func LastReward(rewards []float64) float64 { return rewards[len(rewards)-1] }

// BestReward is the best of all turns.
func BestReward(rewards []float64) float64 {
	best := math.Inf(-1)
	for _, r := range rewards {
		best = max(best, r)
	}
	return best
}

// DiscountedReward is that of the last turn, times discount for each turn before it; what is below 0 stays, so that it is never better
// to fail later.
func DiscountedReward(discount float64) func(rewards []float64) float64 {
	return func(rewards []float64) float64 {
		last := LastReward(rewards)
		if last <= 0 {
			return last
		}
		return last * math.Pow(discount, float64(len(rewards)-1))
	}
}
