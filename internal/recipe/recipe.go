// Package recipe makes of the settings of a run what it does with rewards, advantages and the loss, and keeps what of that
// lasts for a step: what the reference says of its completions, and what the policy said before the first update.
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

// Recipe is an objective on its way through the steps of a run.
type Recipe struct {
	Compare   objective.Comparison
	Loss      objective.Loss
	Objective model.Objective
	// PositiveOnly leaves out completions whose advantage is not above 0.
	PositiveOnly bool
	// Warn, where set, is told of advantages of which the gradient is not going to be finite.
	Warn func(string)

	estimator objective.Estimator // of the divergence that is taken off rewards
	first     int                 // the place of the first datum that the loss is shown

	reference, near [][]float64 // of each datum that is learned from, the tokens that count
	seen            objective.Seen
	scratch         objective.Sequence
	effects         Effects // of the comparison
	huge            string  // the completion whose reward is far beyond all others of the step, "" where none is
}

// Own are parts that a Go program brings; nil is what the settings say.
type Own struct {
	Advantage func(rewards []float64) []float64
	Loss      model.LossFunc
}

// Within are the comparisons inside of a group, by the setting advantage.
var Within = map[string]func(rewards []float64) []float64{
	"mean": objective.Mean, "std": objective.Std, "leave_one_out": objective.LeaveOneOut,
}

// Of is the recipe of a configuration.
func Of(cfg *configs.Config, own Own) (*Recipe, error) {
	reduction, err := model.ParseReduction(cfg.Reduction)
	if err != nil {
		return nil, badinput.Errorf("reduction: %w", err)
	}
	r := &Recipe{PositiveOnly: cfg.PositiveOnly, estimator: objective.Estimator(cfg.KLEstimator)}
	r.Objective = model.Objective{Custom: own.Loss, Reduction: reduction, Temperature: float32(cfg.Temperature)}
	r.Compare = objective.Comparison{Within: Within[cfg.Advantage], Baseline: cfg.Advantage == "batch_baseline", Bound: cfg.AdvantageClip,
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

// Adjust puts other settings in force from the next step on. Without a penalty for length the buffer is the run's own.
func (r *Recipe) Adjust(temperature, overlong float64, buffer int) {
	r.Objective.Temperature = float32(temperature)
	s := &r.Compare.Shaping
	if s.Penalty, s.Buffer = overlong, buffer; overlong > 0 && buffer == 0 {
		s.Buffer = max(1, s.Longest/5)
	}
}

// kernel tells whether backends know the loss.
func (r *Recipe) kernel() bool {
	return r.Loss.Plain() && r.Loss.Kind != objective.GSPO && r.Loss.Kind != objective.GSPOToken
}

// Scorer gives log-probabilities of targets by the frozen weights alone.
type Scorer interface {
	ScoreBase(ctx context.Context, datums []model.Datum, temperature float32) ([][]float32, error)
}

// Advantages compares the completions of groups. Datum gives the sequence of one of them.
func (r *Recipe) Advantages(ctx context.Context, s Scorer, groups []objective.Group, datum func(group, sample int) model.Datum) (
	a objective.Advantages, err error) {
	r.effects = Effects{}
	if r.Compare.KL > 0 {
		if err := r.diverge(ctx, s, groups, datum); err != nil {
			return a, err
		}
	}
	if a, err = r.Compare.Of(groups); err != nil {
		return a, err
	}
	r.effects.compared(r.Compare, a)
	r.huge = huge(groups)
	if r.Warn != nil {
		r.warn(groups, a)
	}
	return a, nil
}

// mostAdvantage is the largest whose gradient has squares that single precision holds, which Adam keeps: their root is 1.8e19.
const mostAdvantage = 1e18

// warn tells of the first group with an advantage that is too large, and the reward that is the cause.
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

// huge names the completion of a step that earned a thousand times as much as any other.
func huge(groups []objective.Group) string {
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

// mostBlamed is how many completions are named where the fault is not with one of them.
const mostBlamed = 8

// Blame names what made a gradient of the step infinite: the one reward that is far beyond the others, or else the completions whose
// gradients are so by themselves, the first of them.
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

// diverge gives each completion how far its tokens are from the reference.
func (r *Recipe) diverge(ctx context.Context, s Scorer, groups []objective.Group, datum func(group, sample int) model.Datum) error {
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
			for t, old := range counted(all[at], all[at].OldLogProbs) {
				kl, _ := r.estimator.Of(old, reference[at][t])
				x.KL, sum, n = append(x.KL, kl), sum+kl, n+1
			}
			at++
		}
	}
	r.effects.KLRef = mean(sum, n)
	return nil
}

// Begin readies the loss for a step that learns from these datums.
func (r *Recipe) Begin(ctx context.Context, s Scorer, datums []model.Datum) (err error) {
	r.first, r.reference, r.near = 0, nil, make([][]float64, len(datums))
	if r.Loss.KL > 0 {
		r.reference, err = score(ctx, s, datums, r.Objective.Temperature)
	}
	return err
}

// score is one pass through the reference. There are numbers for the tokens that count.
func score(ctx context.Context, s Scorer, datums []model.Datum, temperature float32) ([][]float64, error) {
	scores, err := s.ScoreBase(ctx, datums, temperature)
	if err != nil {
		return nil, err
	}
	all := make([][]float64, len(scores))
	for i := range scores {
		all[i] = counted(datums[i], scores[i])
	}
	return all, nil
}

// counted are the numbers of the tokens that a datum learns from.
func counted(d model.Datum, all []float32) (some []float64) {
	for t, counts := range d.Mask {
		if counts {
			some = append(some, float64(all[t]))
		}
	}
	return some
}
