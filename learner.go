package grpo

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/optim"
)

// learner changes a policy: it has the objective and the optimizer.
type learner struct {
	policy        *model.Policy
	adam          *optim.Adam
	objective     model.Objective
	rate          float64
	schedule      optim.Schedule
	deterministic bool // a sampler and a trainer that disagree end the run
}

// openLearner opens the optimizer of a policy.
func openLearner(cfg *configs.Config, b kernels.Backend, p *policy, own model.LossFunc) (*learner, error) {
	l := &learner{policy: p.Policy, rate: cfg.LearningRate, deterministic: cfg.Deterministic}
	loss, err := kernels.ParseLoss(cfg.Loss)
	if err != nil {
		return nil, badinput.Errorf("loss: %w", err)
	}
	if loss.Kind == kernels.PPO || loss.Kind == kernels.CISPO {
		loss.Low, loss.High = float32(cfg.ClipLow), float32(cfg.ClipHigh)
	}
	reduction, err := model.ParseReduction(cfg.Reduction)
	if err != nil {
		return nil, badinput.Errorf("reduction: %w", err)
	}
	l.objective = model.Objective{Loss: loss, Custom: own, Reduction: reduction, Temperature: float32(cfg.Temperature)}
	if l.schedule, err = optim.ParseSchedule(cfg.Schedule, cfg.SchedulerTotalSteps, cfg.WarmupSteps); err != nil {
		return nil, err
	}
	params, grads, locate := p.Slabs()
	l.adam, err = optim.NewAdam(b, params, grads, optim.Config{Beta1: cfg.AdamBeta1, Beta2: cfg.AdamBeta2, Eps: cfg.AdamEps,
		WeightDecay: cfg.WeightDecay, ClipNorm: cfg.GradClipNorm}, locate)
	if err != nil {
		return nil, err
	}
	l.adam.Spare(p.Spared())
	return l, nil
}

// learningRate is that of a step.
func (l *learner) learningRate(step int) float64 { return l.rate * l.schedule.Factor(step) }

// Update is what the updates of a step did to the policy.
type Update struct {
	Updated      bool    `json:"updated"`        // false where no group had anything to teach
	Iterations   int     `json:"num_iterations"` // updates that were to be made on the same completions
	model.Stats          // at the last update
	Drift                // over all of them
	GradNorm     float64 `json:"grad_norm"`
	LearningRate float64 `json:"lr"`
	// OnPolicy is max |log p − log q| between trainer and sampler at the first update of the step: exactly 0
	// where the completions are of the current policy.
	OnPolicy float64 `json:"max_logp_diff_on_policy"`

	trained   string                // the SHA-256 of the parameters that came out
	nonFinite *optim.NonFiniteError // why there was no update after all
}

// update takes the optimizer's steps on the datums: gradients are accumulated over all of them, then the
// parameters change once for each iteration. Without datums it does nothing. stale says that the datums are of an
// older policy.
func (l *learner) update(ctx context.Context, datums []model.Datum, iterations int, rate float64, stale bool) (u Update, err error) {
	u = Update{Iterations: iterations, LearningRate: rate}
	if len(datums) == 0 {
		return u, nil
	}
	for i := range iterations {
		l.adam.ZeroGrad()
		stats, err := l.policy.Accumulate(ctx, datums, l.objective)
		if err != nil {
			return u, fmt.Errorf("train: %w", err)
		}
		if i == 0 {
			u.OnPolicy = stats.MaxDiff
			if l.deterministic && !stale && u.OnPolicy != 0 {
				return u, fmt.Errorf("sampler and trainer disagree by %g about a log-probability: they do not run the same policy", u.OnPolicy)
			}
		}
		if l.objective.Custom != nil && !finite(stats.Loss) {
			return u, fmt.Errorf("train: the program's own loss is %v, expected a number", stats.Loss)
		}
		done, err := l.adam.Step(rate)
		if errors.As(err, &u.nonFinite) {
			return u, nil
		}
		if err != nil {
			return u, fmt.Errorf("update: %w", err)
		}
		l.policy.Publish()
		u.Stats, u.GradNorm, u.Updated = stats, done.GradNorm, true
		ctx = context.WithoutCancel(ctx) // a step that has begun to change the policy is ended
	}
	return u, nil
}

// culprits are the datums whose gradient is not finite.
func (l *learner) culprits(ctx context.Context, datums []model.Datum) (culprits []int, err error) {
	defer l.adam.ZeroGrad()
	for i := range datums {
		l.adam.ZeroGrad()
		if _, err := l.policy.Accumulate(ctx, datums[i:i+1], l.objective); err != nil {
			return nil, err
		}
		if norm, err := l.adam.GradNorm(); err != nil {
			return nil, err
		} else if !finite(norm) {
			culprits = append(culprits, i)
		}
	}
	return culprits, nil
}

func finite(x float64) bool { return x-x == 0 }
