// Package recipe turns the settings of a run into how rewards become advantages and what the loss is, and keeps what the
// loss needs for a step: log-probabilities under the reference policy, and those before the first update.
package recipe

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/objective"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
)

// Recipe is the objective of a run, with its state within a step.
type Recipe struct {
	Compare   objective.Comparison
	Loss      objective.Loss
	Objective model.Objective
	// PositiveOnly leaves out completions whose advantage is not positive.
	PositiveOnly bool
	// Warn, if set, is called with a warning when advantages are so large that the gradient will not be finite.
	Warn func(string)

	estimator objective.Estimator // of the KL penalty on rewards
	first     int                 // index of the first datum that the loss is given

	reference, near [][]float64 // log-probabilities by datum and masked-in token, for Loss.KL and for Loss.Truncation
	seen            objective.TokenCounts
	scratch         objective.Sequence
	effects         Effects // those of computing the advantages
	huge            string  // describes the completion whose reward is far beyond all others of the step; "" if there is none
}

// Overrides are parts that the caller's program brings; nil means what the settings say.
type Overrides struct {
	Advantage func(rewards []float64) []float64
	Loss      model.LossFunc
}

// GroupAdvantages are the functions that compute advantages within a group, by the value of the setting advantage.
var GroupAdvantages = map[string]func(rewards []float64) []float64{
	"mean": objective.Mean, "std": objective.Std, "leave_one_out": objective.LeaveOneOut,
}

// New builds the recipe of a configuration.
func New(cfg *configs.Config, own Overrides) (*Recipe, error) {
	reduction, err := model.ParseReduction(cfg.Reduction)
	if err != nil {
		return nil, badinput.Errorf("reduction: %w", err)
	}
	r := &Recipe{PositiveOnly: cfg.PositiveOnly, estimator: objective.Estimator(cfg.KLEstimator)}
	r.Objective = model.Objective{Custom: own.Loss, Reduction: reduction, Temperature: float32(cfg.Temperature)}
	r.Compare = objective.Comparison{Within: GroupAdvantages[cfg.Advantage], Baseline: cfg.Advantage == "batch_baseline",
		Bound:   cfg.AdvantageClip,
		Shaping: objective.Shaping{Clip: cfg.RewardClip, Longest: cfg.MaxTokens, Buffer: cfg.OverlongBuffer, Penalty: cfg.OverlongPenalty}}
	if own.Advantage != nil {
		r.Compare.Within = own.Advantage
	}
	r.Loss = objective.Loss{Kind: objective.Kind(cfg.Loss), Low: cfg.ClipLow, High: cfg.ClipHigh, Dual: cfg.ClipDual,
		Estimator: r.estimator, Entropy: cfg.EntropyCoef, Truncation: objective.Truncation(cfg.TIS), Cap: cfg.TISCap}
	switch cfg.KLIn {
	case "reward":
		r.Compare.KL = cfg.KLCoef
	case "loss":
		r.Loss.KL = cfg.KLCoef
	}
	if own.Loss != nil {
		r.Loss = objective.Loss{}
		return r, nil
	}
	if r.kernel() {
		if r.Objective.Loss, err = kernels.ParseLoss(cfg.Loss); err != nil {
			return nil, badinput.Errorf("loss: %w", err)
		}
		if low, high := r.Loss.Clips(); low != high {
			r.Objective.Loss.Low, r.Objective.Loss.High = float32(cfg.ClipLow), float32(cfg.ClipHigh)
		}
		return r, nil
	}
	r.Objective.Custom = r.loss
	return r, nil
}

// Adjust changes settings from the next step on. A penalty for length without a buffer gets one of a fifth of the length.
func (r *Recipe) Adjust(temperature, overlong float64, buffer int) {
	r.Objective.Temperature = float32(temperature)
	s := &r.Compare.Shaping
	if s.Penalty, s.Buffer = overlong, buffer; overlong > 0 && buffer == 0 {
		s.Buffer = max(1, s.Longest/5)
	}
}

// kernel reports whether backends have a kernel for the loss.
func (r *Recipe) kernel() bool {
	return r.Loss.Plain() && r.Loss.Kind != objective.GSPO && r.Loss.Kind != objective.GSPOToken
}

// Scorer computes log-probabilities of targets under the reference policy: the frozen weights without the adapter.
type Scorer interface {
	ScoreBase(ctx context.Context, datums []model.Datum, temperature float32) ([][]float32, error)
}

// Advantages computes the advantages of groups. datum returns the sequence of one completion.
func (r *Recipe) Advantages(ctx context.Context, s Scorer, groups []objective.Group, datum func(group, sample int) model.Datum) (
	a objective.Advantages, err error) {
	r.effects = Effects{}
	if r.Compare.KL > 0 {
		if err := r.estimateKL(ctx, s, groups, datum); err != nil {
			return a, err
		}
	}
	if a, err = r.Compare.Of(groups); err != nil {
		return a, err
	}
	r.effects.compared(r.Compare, a)
	r.huge = hugeReward(groups)
	if r.Warn != nil {
		r.warn(groups, a)
	}
	return a, nil
}

// mostAdvantage is the largest advantage whose gradient Adam can square in single precision, whose largest root is 1.8e19.
const mostAdvantage = 1e18

// warn reports the first group with an advantage that is too large, and the reward that causes it.
func (r *Recipe) warn(groups []objective.Group, a objective.Advantages) {
	for g, all := range a.Samples {
		if !slices.ContainsFunc(all, func(x float64) bool { return math.Abs(x) > mostAdvantage }) {
			continue
		}
		most, samples := 0, groups[g].Samples
		for i, x := range samples {
			if math.Abs(x.Reward) > math.Abs(samples[most].Reward) {
				most = i
			}
		}
		r.Warn(fmt.Sprintf("problem %s: completion %d of the %d that count earned %.3g, so far from the others that the gradient will hardly be "+
			"finite, and the step is lost then; scale rewards down where they are made, or type reward_clip=10", groups[g].Name, most+1,
			len(samples), samples[most].Reward))
		return
	}
}

// hugeReward describes the completion of a step whose reward is a thousand times that of any other; "" if there is none.
func hugeReward(groups []objective.Group) string {
	most, next, name := 0.0, 0.0, ""
	for _, g := range groups {
		for i, s := range g.Samples {
			x := math.Abs(s.Reward)
			if x > most {
				most, next = x, most
				name = fmt.Sprintf("completion %d of the %d that count of problem %s, which earned %.3g", i+1, len(g.Samples), g.Name, s.Reward)
			} else {
				next = max(next, x)
			}
		}
	}
	if most > 1000*max(next, 1) {
		return name
	}
	return ""
}

// mostBlamed is how many completions Blame names at most.
const mostBlamed = 8

// Blame names the cause of a gradient that is not finite: the one reward that is far beyond all others, or else the completions
// whose own gradients are not finite.
func (r *Recipe) Blame(completions []string) []string {
	switch {
	case r.huge != "":
		return []string{r.huge}
	case len(completions) == 0:
		return []string{"no completion by itself, but all of them together"}
	case len(completions) > mostBlamed:
		return append(slices.Clone(completions[:mostBlamed]), fmt.Sprintf("and %d more", len(completions)-mostBlamed))
	}
	return completions
}

// estimateKL estimates for each completion the KL divergence of its tokens from the reference policy.
func (r *Recipe) estimateKL(ctx context.Context, s Scorer, groups []objective.Group, datum func(group, sample int) model.Datum) error {
	var all []model.Datum
	for g := range groups {
		for i := range groups[g].Samples {
			all = append(all, datum(g, i))
		}
	}
	reference, err := score(ctx, s, all, r.Objective.Temperature)
	if err != nil {
		return err
	}
	at, sum, n := 0, 0.0, 0
	for g := range groups {
		for i := range groups[g].Samples {
			x := &groups[g].Samples[i]
			x.KL = make([]float64, 0, len(reference[at]))
			for t, old := range masked(all[at], all[at].OldLogProbs) {
				kl, _ := r.estimator.Of(old, reference[at][t])
				x.KL, sum, n = append(x.KL, kl), sum+kl, n+1
			}
			at++
		}
	}
	r.effects.KLRef = mean(sum, n)
	return nil
}

// BeginStep prepares the loss for a step that trains on these datums.
func (r *Recipe) BeginStep(ctx context.Context, s Scorer, datums []model.Datum) (err error) {
	r.first, r.reference, r.near = 0, nil, make([][]float64, len(datums))
	if r.Loss.KL > 0 {
		r.reference, err = score(ctx, s, datums, r.Objective.Temperature)
	}
	return err
}

// score computes the log-probabilities of masked-in tokens under the reference policy.
func score(ctx context.Context, s Scorer, datums []model.Datum, temperature float32) ([][]float64, error) {
	scores, err := s.ScoreBase(ctx, datums, temperature)
	if err != nil {
		return nil, err
	}
	all := make([][]float64, len(scores))
	for i := range scores {
		all[i] = masked(datums[i], scores[i])
	}
	return all, nil
}

// masked selects the numbers of the tokens that a datum is trained on.
func masked(d model.Datum, all []float32) (some []float64) {
	for t, counts := range d.Mask {
		if counts {
			some = append(some, float64(all[t]))
		}
	}
	return some
}
