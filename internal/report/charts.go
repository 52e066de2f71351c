package report

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/display"
)

// section is a part of the page: charts over the same axis, and the series that are constant.
type section struct {
	ID, Title, Lead string
	Axis            *axis
	Charts          []*chart
	Still           []legend
	plots           []plot // the data of its charts
}

func (s *section) add(plots ...plot) { s.plots = append(s.plots, plots...) }

// drawn draws the plots of a section, leaving out those without values.
func (s section) drawn() section {
	for _, p := range s.plots {
		switch c := p.draw(s.Axis); {
		case c == nil:
		case c.Still:
			s.Still = append(s.Still, c.Legend...)
		default:
			s.Charts = append(s.Charts, c)
		}
	}
	return s
}

// sections are the sections of charts, the most important first.
func (r *run) sections() []section {
	var all, out []section
	if len(r.evals) > 1 { // a single one is shown at the top instead
		all = append(all, r.heldOut())
	}
	if len(r.held) > 1 {
		all = append(all, r.heldRows())
	}
	if len(r.steps) > 0 {
		steps := make([]int, len(r.steps))
		for i, s := range r.steps {
			steps[i] = s.Step
		}
		all = append(all, r.ofSteps(evenly(steps))...)
	}
	for _, s := range all {
		if s = s.drawn(); len(s.Charts)+len(s.Still) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// ofSteps are the sections with a value for each step.
func (r *run) ofSteps(a *axis) []section {
	return []section{r.lessons(a), r.learning(a), r.completions(a), r.optimizer(a), r.time(a)}
}

// Many reports whether the legend would take more room than the curves.
func (c *chart) Many() bool { return len(c.Legend) > colors }

// unchanged is the constant value of a series, with all digits; "" after a single sample, as it may still change.
func (s series) unchanged() string {
	if len(s.values) == 1 {
		return s.format(s.values[0])
	}
	return exact(last(s.values))
}

// Only reports whether the charts have a single sample each.
func (s section) Only() bool { return s.Axis.Spans[len(s.Axis.Spans)-1][1] == 1 }

// reading explains the lines of a chart if necessary.
func reading(a *axis) string {
	lead := ""
	if len(a.Spans) >= enoughForTrend {
		lead = "thin lines: measured values, thick lines: their moving average"
	}
	switch n, points := a.Spans[len(a.Spans)-1][1], len(a.Spans); {
	case 2*n >= 3*points:
		lead += fmt.Sprintf("; each point covers about %d steps", (n+points/2)/points)
	case n > points:
		lead += "; each point covers one or two steps"
	}
	return lead
}

// breakLines inserts a gap before every value that is not comparable with the one before, so that no line joins them, and a note about it.
func breakLines[T any](all []T, alike func(a, b *T) bool, gap func(at *T) T, what string) (out []T, lead string) {
	for i := range all {
		if i > 0 && !alike(&all[i-1], &all[i]) {
			out, lead = append(out, gap(&all[i])), "a line breaks where other "+what+" were held out"
		}
		out = append(out, all[i])
	}
	return out, lead
}

func (r *run) heldOut() section {
	evals, lead := breakLines(r.evals, func(a, b *evaluation) bool { return r.outcome(a).SameProblems(r.outcome(b)) },
		func(at *evaluation) evaluation { return unknownEvaluation(at.Step) }, "problems")
	e, k := len(evals), 0
	steps := make([]int, e)
	greedy, low, high, sampled, best := make([]float64, e), make([]float64, e), make([]float64, e), make([]float64, e), make([]float64, e)
	for i, e := range evals {
		steps[i], greedy[i], low[i], high[i], sampled[i], best[i] = e.Step, e.Greedy, e.CI[0], e.CI[1], e.PassAt1, e.PassAtK
		k = max(k, e.K)
	}
	s := section{ID: "held-out", Title: "Held-out problems", Lead: lead, Axis: byStep(steps)}
	p := plot{title: "Share solved", note: "the band is the 95 % interval of pass@1, greedy", share: true, plain: true, dots: true,
		series: []series{
			{name: "pass@1, greedy", color: "c1", values: greedy, low: low, high: high, format: rate},
			{name: "pass@1, sampled", color: "c2", values: sampled, format: rate},
		}}
	if k > 1 {
		p.series = append(p.series, series{name: "pass@" + exact(float64(k)), color: "c3", values: best, format: rate})
	}
	s.add(p)
	return s
}

// over returns a quantity of every step.
func (r *run) over(of func(s *step) float64) []float64 {
	out := make([]float64, len(r.steps))
	for i := range r.steps {
		out[i] = of(&r.steps[i])
	}
	return out
}

// line is a quantity of every step as a series.
func (r *run) line(name, color string, format func(float64) string, of func(s *step) float64) series {
	return series{name: name, color: color, format: format, values: r.over(of)}
}

// band is a line with an interval.
func (r *run) band(name, color string, format func(float64) string, of, low, high func(s *step) float64) series {
	s := r.line(name, color, format, of)
	s.low, s.high = r.over(low), r.over(high)
	return s
}

func (r *run) learning(a *axis) section {
	s := section{ID: "learning", Title: "Rewards", Lead: reading(a), Axis: a}
	s.add(
		plot{title: "Mean reward",
			series: append([]series{r.line("reward", "c1", earned, func(s *step) float64 { return s.Reward })}, r.undone()...)},
		plot{title: "Shares of completions", share: true, series: []series{
			r.line("right", "c1", rate, func(s *step) float64 { return s.Correct }),
			r.line("tests passed", "c3", rate, func(s *step) float64 { return s.Fraction }),
			r.line("has a program", "c2", rate, func(s *step) float64 { return s.Format }),
		}},
		plot{title: "Groups with one outcome", note: "share of groups; they give a gradient only if rewards differ", share: true, stacked: true,
			series: []series{
				r.line("all right", "c1", rate, func(s *step) float64 { return s.AllGood }),
				r.line("all wrong", "c2", rate, func(s *step) float64 { return s.AllBad }),
				r.line("otherwise equal", "c7", rate, otherwiseEqual),
			}},
		r.verdictMix(),
		r.components(),
	)
	return s
}

// components are the means of the reward's components.
func (r *run) components() plot {
	p, seen := plot{title: "Components of the reward"}, map[string]bool{}
	for i := range r.steps {
		for name := range r.steps[i].Components {
			seen[name] = true
		}
	}
	for i, name := range slices.Sorted(maps.Keys(seen)) {
		p.series = append(p.series, r.line(name, fmt.Sprintf("c%d", 1+i%7), earned, func(s *step) float64 {
			if v, ok := s.Components[name]; ok {
				return v
			}
			return nan
		}))
	}
	return p
}

// otherwiseEqual is the share of groups without contrast that are neither all right nor all wrong.
func otherwiseEqual(s *step) float64 {
	rest := s.Skipped/s.Groups - s.AllGood - s.AllBad
	if rest < 1e-9 {
		return 0
	}
	return rest
}

func (r *run) verdictMix() plot {
	p := plot{title: "Verdicts", note: "share of completions", share: true, stacked: true}
	for _, v := range display.Verdicts {
		p.series = append(p.series, series{name: v.Name, color: v.Color, format: rate, values: r.over(func(s *step) float64 {
			if s.Verdicts == nil {
				return nan
			}
			return s.Verdicts[v.Name] / s.Completions
		})})
	}
	p.series = append(p.series, series{name: "not run", color: "c7", format: rate, values: r.over(func(s *step) float64 {
		if s.Verdicts == nil {
			return nan
		}
		ran := 0.0
		for _, v := range display.Verdicts {
			ran += s.Verdicts[v.Name]
		}
		return math.Max(0, s.Completions-ran) / s.Completions
	})})
	return p
}

func (r *run) completions(a *axis) section {
	s := section{ID: "completions", Title: "Lengths", Axis: a}
	s.add(
		plot{title: "Completion length", note: "in tokens; the band is from the shortest to the longest",
			series: []series{r.band("mean", "c1", number,
				func(s *step) float64 { return s.MeanLength },
				func(s *step) float64 { return s.MinLength },
				func(s *step) float64 { return s.MaxLength })}},
		plot{title: "Cut off at max_tokens", note: "share of completions", reference: []float64{0},
			series: []series{r.line("truncated", "c2", rate, func(s *step) float64 { return s.Truncated })}},
	)
	return s
}

func (r *run) optimizer(a *axis) section {
	s := section{ID: "optimizer", Title: "Optimizer", Axis: a}
	s.add(
		plot{title: "Gradient norm", steep: true,
			series: []series{r.line("gradient norm", "c1", number, func(s *step) float64 { return s.GradNorm })}},
		plot{title: "Entropy", note: "nats per token", reference: []float64{0},
			series: []series{r.line("entropy", "c3", number, func(s *step) float64 { return s.Entropy })}},
		plot{title: "Learning rate", plain: true, reference: []float64{0},
			series: []series{r.line("learning rate", "c6", number, func(s *step) float64 { return s.Rate })}},
		plot{title: "KL of a step", note: "between the policies before and after it", series: []series{
			r.line("kl_pre_post_v1", "c2", number, func(s *step) float64 { return s.Shift1 }),
			r.line("kl_pre_post_v2", "c1", number, func(s *step) float64 { return s.Shift2 })}},
		plot{title: "KL from the reference", note: "the model without its adapter",
			series: []series{r.line("kl_ref", "c1", number, func(s *step) float64 { return s.KLRef })}},
		plot{title: "KL between sampler and trainer", series: []series{
			r.line("kl_v1", "c2", number, func(s *step) float64 { return s.KL1 }),
			r.line("kl_v2", "c1", number, func(s *step) float64 { return s.KL2 })}},
		plot{title: "Importance ratio", note: "the band is from the smallest to the largest of a token",
			series: []series{r.band("importance ratio", "c1", fine,
				func(s *step) float64 { return s.RatioMean },
				func(s *step) float64 { return s.RatioMin },
				func(s *step) float64 { return s.RatioMax })}},
		plot{title: "max|Δlogp| on policy", note: "guaranteed to be 0", plain: true, reference: []float64{0},
			series: []series{r.line("max|Δlogp| on policy", "c9", number, onPolicy)}},
		plot{title: "max|Δlogp| at the last update of a step",
			series: []series{r.line("max|Δlogp| at the last update of a step", "c4", number, func(s *step) float64 { return s.MaxDiff })}},
		plot{title: "Clipped tokens", note: "share", reference: []float64{0},
			series: []series{r.line("clipped", "c5", rate, func(s *step) float64 { return s.Clipped })}},
		plot{title: "Effective sample size", note: "share of the tokens", reference: []float64{1},
			series: []series{r.line("effective sample size", "c8", fine, func(s *step) float64 { return s.ESS })}},
	)
	return s
}

// onPolicy is the difference that should be 0; unknown for a step that was sampled ahead, which is off-policy by design.
func onPolicy(s *step) float64 {
	if s.Staleness > 0 {
		return nan
	}
	return s.OnPolicy
}

func (r *run) time(a *axis) section {
	s := section{ID: "time", Title: "Time", Axis: a}
	s.add(
		plot{title: "Seconds per step", stacked: true, series: []series{
			r.line("sampling", "c1", seconds, func(s *step) float64 { return s.timing.Sample }),
			r.line("waiting for scores", "c2", seconds, func(s *step) float64 { return s.timing.Score }),
			r.line("training", "c3", seconds, func(s *step) float64 { return s.timing.Train }),
			r.line("other", "c7", seconds, func(s *step) float64 { return s.timing.other() }),
		}},
		plot{title: "Tokens per second", note: "while that phase ran", steep: true, series: []series{
			r.line("tokens/s sampled", "c1", number, func(s *step) float64 { return s.timing.TokensSec }),
			r.line("tokens/s trained", "c3", number, func(s *step) float64 { return s.timing.TrainSec }),
		}},
	)
	return s
}

// other is the time of a step outside of its phases.
func (t *timing) other() float64 {
	rest := t.Total - t.Sample - t.Score - t.Train
	if rest < 1e-3*t.Total {
		return 0
	}
	return rest
}
