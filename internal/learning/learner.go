// Package learning trains a policy on what was sampled: it has the objective and the optimizer, and knows no problems and no
// rewards.
package learning

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/recipe"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/optim"
)

// Learner trains a policy.
type Learner struct {
	Policy        *model.Policy
	Adam          *optim.Adam
	Recipe        *recipe.Recipe
	own           bool // the loss is the caller's own
	rate          float64
	schedule      optim.Schedule
	deterministic bool // end the run if log-probabilities of sampler and trainer differ
}

// Open makes the optimizer and the objective of a policy.
func Open(cfg *configs.Config, b kernels.Backend, p *model.Policy, own recipe.Overrides) (l *Learner, err error) {
	l = &Learner{Policy: p, rate: cfg.LearningRate, deterministic: cfg.Deterministic, own: own.Loss != nil}
	if l.Recipe, err = recipe.New(cfg, own); err != nil {
		return nil, err
	}
	if l.schedule, err = optim.ParseSchedule(cfg.Schedule, cfg.SchedulerTotalSteps, cfg.WarmupSteps); err != nil {
		return nil, err
	}
	params, grads, locate := p.Slabs()
	l.Adam, err = optim.NewAdam(b, params, grads, optim.Config{Beta1: cfg.AdamBeta1, Beta2: cfg.AdamBeta2, Eps: cfg.AdamEps,
		WeightDecay: cfg.WeightDecay, ClipNorm: cfg.GradClipNorm}, locate)
	if err != nil {
		return nil, err
	}
	return l, l.Adam.Spare(p.Spared())
}

// SetRate sets the peak learning rate from now on; PeakRate returns it.
func (l *Learner) SetRate(rate float64) { l.rate = rate }
func (l *Learner) PeakRate() float64    { return l.rate }

// Rate is the learning rate of a step by the schedule.
func (l *Learner) Rate(step int) float64 { return l.rate * l.schedule.Factor(step) }

// Passes is how often a step sends each datum through the model: once per update, and once for the reference if the loss needs it.
func (l *Learner) Passes(iterations int) int {
	if l.Recipe.Loss.KL > 0 {
		iterations++
	}
	return iterations
}

// Update is what the updates of a step did, as metrics.
type Update struct {
	Updated     bool `json:"updated"`        // false where no group had advantages
	Iterations  int  `json:"num_iterations"` // updates asked for on the same completions
	model.Stats      // of the last update
	Drift            // over all updates
	recipe.Effects
	GradNorm     float64 `json:"grad_norm"`
	LearningRate float64 `json:"lr"`
	// OnPolicy is max |log p − log q| between trainer and sampler at the first update of the step. It is exactly 0 where
	// the current policy sampled the completions.
	OnPolicy float64 `json:"max_logp_diff_on_policy"`

	After     string                `json:"-"` // the SHA-256 of the updated parameters
	NonFinite *optim.NonFiniteError `json:"-"` // why the update was skipped; nil: it was not
}

// Update takes the optimizer's steps on the datums: each iteration accumulates gradients over all of them and then
// updates the parameters once. Without datums it does nothing. stale says that an older policy sampled the datums.
func (l *Learner) Update(ctx context.Context, datums []model.Datum, iterations int, rate float64, stale bool) (u Update, err error) {
	u = Update{Iterations: iterations, LearningRate: rate, Effects: l.Recipe.AdvantageEffects()}
	if len(datums) == 0 {
		return u, nil
	}
	if err := l.Recipe.BeginStep(ctx, l.Policy, datums); err != nil {
		return u, fmt.Errorf("score by the reference: %w", err)
	}
	for i := range iterations {
		l.Adam.ZeroGrad()
		l.Recipe.BeginUpdate()
		stats, err := l.Policy.Accumulate(ctx, datums, l.Recipe.Objective)
		if err != nil {
			return u, fmt.Errorf("train: %w", err)
		}
		if i == 0 {
			u.OnPolicy = stats.MaxDiff
			if l.deterministic && !stale && u.OnPolicy != 0 {
				return u, fmt.Errorf("sampler and trainer disagree by %g about a log-probability: they do not run the same policy", u.OnPolicy)
			}
		}
		if l.own && !finite(stats.Loss) {
			return u, fmt.Errorf("train: the program's own loss is %v, expected a number", stats.Loss)
		}
		done, err := l.Adam.Step(rate)
		if errors.As(err, &u.NonFinite) {
			return u, nil
		}
		if err != nil {
			return u, fmt.Errorf("update: %w", err)
		}
		l.Policy.Publish()
		u.Effects = l.Recipe.Effects(&stats) // also sets stats.Clipped
		u.Stats, u.GradNorm, u.Updated = stats, done.GradNorm, true
		ctx = context.WithoutCancel(ctx) // once the policy has changed, the step is completed
	}
	return u, nil
}

// Culprits are the indices of datums whose own gradient is not finite, or so large that its square, which Adam keeps, is not.
func (l *Learner) Culprits(ctx context.Context, datums []model.Datum) (culprits []int, err error) {
	defer l.Adam.ZeroGrad()
	for i := range datums {
		l.Adam.ZeroGrad()
		l.Recipe.OnlyDatum(i)
		if _, err := l.Policy.Accumulate(ctx, datums[i:i+1], l.Recipe.Objective); err != nil {
			return nil, err
		}
		if norm, err := l.Adam.GradNorm(); err != nil {
			return nil, err
		} else if !(norm*norm <= math.MaxFloat32) {
			culprits = append(culprits, i)
		}
	}
	return culprits, nil
}

func finite(x float64) bool { return x-x == 0 }
