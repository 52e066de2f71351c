package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/stats"
)

// eval is an evaluation of a hundred problems, unless changed.
func eval(step int, greedy, low, high float64) evaluation {
	return evaluation{Step: step, Problems: 100, Greedy: greedy, CI: [2]float64{low, high}}
}

func TestVerdict(t *testing.T) {
	other := eval(9, 0.6, 0.5, 0.7)
	other.Problems = 50
	rewards := func(values ...float64) (steps []step) {
		for i, v := range values {
			s := unknownStep()
			s.Step, s.Reward = i+1, v
			steps = append(steps, s)
		}
		return steps
	}
	for _, c := range []struct {
		run  run
		want verdict
	}{
		{run{evals: []evaluation{eval(0, 0.3, 0.2, 0.4), eval(9, 0.6, 0.5, 0.7)}},
			verdict{"good", "Held-out pass@1 rose from 0.300 to 0.600", "The 95 % intervals do not overlap."}},
		{run{evals: []evaluation{eval(0, 0.3, 0.2, 0.4), eval(9, 0.4, 0.3, 0.5)}},
			verdict{"open", "Held-out pass@1 rose from 0.300 to 0.400, which may be chance", "The 95 % intervals overlap: this may be chance."}},
		{run{evals: []evaluation{eval(0, 0.6, 0.5, 0.7), eval(9, 0.3, 0.2, 0.4)}},
			verdict{"bad", "Held-out pass@1 fell from 0.600 to 0.300", "The 95 % intervals do not overlap."}},
		{run{evals: []evaluation{eval(0, 0.3, 0.2, 0.4), eval(9, 0.3, 0.2, 0.4)}}, verdict{"open", "Held-out pass@1 stayed at 0.300", ""}},
		{run{evals: []evaluation{eval(0, 0.3, nan, nan), eval(9, 0.6, nan, nan)}},
			verdict{"open", "Held-out pass@1 rose from 0.300 to 0.600", ""}},
		{run{evals: []evaluation{eval(0, 0.3, 0.2, 0.4), eval(5, 0.8, 0.7, 0.9), eval(9, 0.6, 0.5, 0.7)}},
			verdict{"good", "Held-out pass@1 rose from 0.300 to 0.600",
				"The 95 % intervals do not overlap. It was best at step 5, 0.800."}},
		{run{evals: []evaluation{eval(0, 0.3, 0.2, 0.4), eval(5, nan, 0.7, 0.9), eval(9, 0.6, 0.5, 0.7)}},
			verdict{"good", "Held-out pass@1 rose from 0.300 to 0.600", "The 95 % intervals do not overlap."}},
		{run{evals: []evaluation{eval(0, 0.3, 0.2, 0.4), other}},
			verdict{"open", "Held-out pass@1 is 0.600, of 50 problems", "Earlier evaluations had other held-out problems, and do not compare."}},
		{run{evals: []evaluation{other, eval(10, 0.3, 0.2, 0.4), eval(19, 0.6, 0.5, 0.7)}},
			verdict{"good", "Held-out pass@1 rose from 0.300 to 0.600",
				"The 95 % intervals do not overlap. Earlier evaluations had other held-out problems, and do not compare."}},
		{run{evals: []evaluation{eval(0, 0.9, 0.8, 1), eval(9, 0.6, 0.5, 0.7)}, judged: map[int]stats.Judged{
			0: {Problems: []string{"a", "b", "c"}}, 9: {Problems: []string{"c", "d", "e"}}}},
			verdict{"open", "Held-out pass@1 is 0.600, of 100 problems",
				"Earlier evaluations had other held-out problems, and do not compare."}},
		{run{steps: rewards(0.1, 0.2, 0.5, 0.7)},
			verdict{"open", "Mean reward rose from 0.150 to 0.600",
				"These are means of the last 2 steps and of the first 2. " +
					"Without a second evaluation on held-out problems, this does not show whether the model learned."}},
	} {
		require.Equal(t, c.want, c.run.verdict())
	}
}

// The headline claims no more than paired problems show.
func TestHeadlineOfPairs(t *testing.T) {
	said := func(n, before, after int) verdict { // the first of n problems are right
		r := run{judged: map[int]stats.Judged{}}
		for step, right := range map[int]int{0: before, 9: after} {
			j := stats.Judged{Step: step}
			for i := range n {
				j.Problems, j.Correct = append(j.Problems, fmt.Sprint(i)), append(j.Correct, 0)
				if i < right {
					j.Correct[i] = 1
				}
			}
			r.judged[step] = j
		}
		for _, step := range []int{0, 9} {
			greedy := stats.Mean(r.judged[step].Correct)
			r.evals = append(r.evals, evaluation{Step: step, Problems: n, Greedy: greedy, CI: [2]float64{greedy, greedy}}.settle())
		}
		return r.verdict()
	}
	v := said(100, 40, 50)
	require.Equal(t, "good", v.Tone, "although the intervals of the two overlap")
	require.Equal(t, "Held-out pass@1 rose from 0.400 to 0.500", v.Sentence)
	require.Regexp(t, `^Problem by problem, the change is \+0\.100, 95 % interval \[\+0\.0\d\d, \+0\.1\d\d\]: more than chance\.$`, v.Detail)
	v = said(100, 50, 40)
	require.Equal(t, "bad", v.Tone)
	v = said(100, 40, 41)
	require.Equal(t, "open", v.Tone)
	require.Equal(t, "Held-out pass@1 rose from 0.400 to 0.410, which may be chance", v.Sentence)
	v = said(19, 0, 19)
	require.Equal(t, "open", v.Tone)
	require.Equal(t, "Held-out pass@1 was 0.000, and is now 1.000, but there are too few problems to tell", v.Sentence)
	require.Contains(t, v.Detail, "19 problems are too few to say")
	v = said(100, 0, 0)
	require.Equal(t, "Held-out pass@1 stayed at 0.000", v.Sentence)
	require.Contains(t, v.Detail, "95 % interval [-0.037, +0.037]: may be chance")
}

// Advice that later steps do not confirm is on the page, but not among what still holds.
func TestOldAdviceDoesNotHold(t *testing.T) {
	r := run{}
	for i := range 30 {
		s := unknownStep()
		s.Step, s.timing.Total, s.timing.Score = i+1, 10, 1
		r.steps = append(r.steps, s)
	}
	r.advice = []advice{{Step: 3, Rule: "truncation"}, {Step: 5, Rule: "reward errors", Fatal: true}, {Step: 10, Rule: NoSkill},
		{Step: 12, Rule: SlowSandbox}, {Step: 12, Rule: SlowScores}, {Step: 20, Rule: "time-outs"}, {Step: 21, Rule: "format falls"}}
	names := func(rules []rule) (all []string) {
		for _, x := range rules {
			all = append(all, x.Name)
		}
		return all
	}
	now, once := r.rules()
	require.Equal(t, []string{"format falls", NoSkill}, names(now))
	require.Equal(t, []string{"time-outs", SlowSandbox, SlowScores, "reward errors", "truncation"}, names(once))
	_, says := r.fatal()
	require.False(t, says, "a run that went on was not stopped")

	r.evals = []evaluation{{Step: 20}}
	for i := range r.steps {
		r.steps[i].timing.Score = 4
	}
	now, _ = r.rules()
	require.Equal(t, []string{"format falls", SlowSandbox, SlowScores}, names(now))
	now, _ = (&run{advice: r.advice[:1]}).rules()
	require.Equal(t, []string{"truncation"}, names(now), "without later steps an advice still holds")
}

func TestBrokenPromiseIsSaid(t *testing.T) {
	r := run{}
	for i, diff := range []float64{0, 3e-6, nan, 1e-7, 0} {
		s := unknownStep()
		s.Step, s.OnPolicy = i+1, diff
		r.steps = append(r.steps, s)
	}
	c, says := r.kept()
	require.True(t, says)
	require.Equal(t, check{"bad", "max|Δlogp| on policy, guaranteed to be 0, was not 0 at 2 of 4 updates: up to 3e-6, at step 2"}, c)
}

// A step sampled ahead is off policy as promised.
func TestStepsSampledAheadAreNotOnPolicy(t *testing.T) {
	r := run{}
	for i, diff := range []float64{0, 0.1, 0.05} {
		s := unknownStep()
		s.Step, s.OnPolicy, s.Staleness = i+1, diff, min(float64(i), 1)
		r.steps = append(r.steps, s)
	}
	require.Equal(t, []check{
		{"good", "max|Δlogp| on policy was exactly 0 at the only update: trainer and sampler agree to the bit"},
		{"open", "2 steps trained on completions sampled up to 1 update earlier; max|Δlogp| there was up to 0.1"},
	}, r.checks())
}

func TestUnscoredCompletionsAreSaid(t *testing.T) {
	s := unknownStep()
	s.Step, s.Completions, s.RewardErrors, s.Reward = 1, 64, 64, 0
	s = s.settle()
	require.True(t, math.IsNaN(s.Reward), "a mean of nothing is not 0")
	r := run{steps: []step{s}}
	c, _ := r.scored()
	require.Equal(t, check{"bad", "64 of 64 completions could not be scored: " +
		"the sandbox failed (grpo doctor), or the reward was not a number"}, c)
	r.settings.JudgeURL = "http://host/v1"
	c, _ = r.scored()
	require.Contains(t, c.Text, "could not be scored: the judge gave no score, the sandbox failed (grpo doctor), or")
	r.steps[0].FileErrors = 60
	c, _ = r.scored()
	require.Equal(t, check{"bad", "64 of 64 completions could not be scored: the reward file failed on 60 of them " +
		"(see the notes of recorded completions)"}, c)
	r.settings.Recorded = "none"
	c, _ = r.scored()
	require.Equal(t, "64 of 64 completions could not be scored: the reward file failed on 60 of them", c.Text)
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.001: "0.001", 0.00001: "1e-5", 16.162769848514195: "16.2", 999.4: "999",
		34488.72: "34,489", 8409400: "8.41M", 123456789: "123M", -0.1: "-0.1", -5000: "-5,000", 1e15: "1e15"} {
		require.Equal(t, want, number(v))
	}
	require.Equal(t, "–", number(nan))
	require.Equal(t, "+0.637", signed(0.6371))
	require.Equal(t, "0.3269230769230769", exact(0.3269230769230769))
	for v, want := range map[float64]string{0.4: "0.4 s", 24.1: "24 s", 89: "89 s", 120: "2 min", 5399: "90 min", 5400: "1 h 30 min",
		3600 * 1234: "1,234 h 0 min"} {
		require.Equal(t, want, strings.ReplaceAll(duration(v), "\u00a0", " "))
	}
	for v, want := range map[float64]string{0: "0 %", 0.0004: "0.04 %", 0.376: "38 %", 1: "100 %"} {
		require.Equal(t, want, strings.ReplaceAll(percent(v), "\u00a0", " "))
	}
	require.Equal(t, "añ\n… and 2 bytes more", display.Truncate("añbc", 3))
	require.Equal(t, "a\n… and 4 bytes more", display.Truncate("añbc", 2))
}

func TestScales(t *testing.T) {
	for _, c := range []struct {
		scale *scale
		want  string
	}{
		{linear(0, 1), "0 0.2 0.4 0.6 0.8 1.0"},
		{linear(-0.1, 0.9), "-0.2 0 0.2 0.4 0.6 0.8 1.0"},
		{linear(12, 52), "0 20 40 60"},
		{linear(0.98, 1.02), "0.98 0.99 1.00 1.01 1.02"},
		{linear(7, 7), "2 4 6 8 10 12"},
		{linear(0, 7000), "0 2,000 4,000 6,000 8,000"},
		{linear(0, 9400), "0 2k 4k 6k 8k 10k"},
		{linear(0, 12000), "0 5k 10k 15k"},
		{linear(0, 41000), "0 10k 20k 30k 40k 50k"},
		{linear(0.99986, 1), "0.99985 0.99990 0.99995 1.00000"},
		{linear(0, 3e-6), "0 1e-6 2e-6 3e-6"},
		{linear(0, 2.4e6), "0 0.5M 1M 1.5M 2M 2.5M"},
		{linear(0, 1e308), "0 0.2 0.4 0.6 0.8 1.0"},
		{logarithmic(0.02, 60), "0.01 0.1 1 10 100"},
	} {
		var labels []string
		for _, tick := range c.scale.Ticks {
			labels = append(labels, tick.Label)
		}
		require.Equal(t, c.want, strings.Join(labels, " "))
		require.Equal(t, "100.0", c.scale.Ticks[0].At)
		require.Equal(t, "0.0", c.scale.Ticks[len(labels)-1].At)
	}
}

func TestLinesHaveGapsWhereNothingIsKnown(t *testing.T) {
	y := linear(0, 1)
	require.Equal(t, "M0 1000 250 0M750 500h0", trace([]float64{0, 0.25, 0.5, 0.75}, []float64{0, 1, nan, 0.5}, y))
	known := func(v float64) column { return column{Mean: v, Low: v, High: v} }
	unknown := known(nan)
	require.Equal(t, "M0 0 500 500 500 1000 0 1000z",
		band([]float64{0, 0.5, 1}, []column{known(0), known(0), unknown}, []column{known(1), known(0.5), unknown}, y))
	// If a line bridges a gap, so does its band.
	p := plot{plain: true, joined: true, dots: true, series: []series{{color: "c1", format: rate, values: []float64{0.5, nan, 0.5},
		low: []float64{0, nan, 0}, high: []float64{1, nan, 1}}}}
	c := p.draw(evenly([]int{0, 10, 20}))
	require.Equal(t, "band", c.Shapes[0].Class)
	require.Equal(t, 1, strings.Count(c.Shapes[0].Path, "M"), c.Shapes[0].Path)
	require.Equal(t, 1, strings.Count(c.Shapes[1].Path, "M"), c.Shapes[1].Path)
	require.Equal(t, "M500 0h0", dots([]float64{0, 0.5}, []column{unknown, known(1)}, y))
}

// The last step of a large file is found from the end.
func TestLastStepOfALargeFile(t *testing.T) {
	dir := t.TempDir()
	var b strings.Builder
	line := func(step, group, sample int, text string) {
		fmt.Fprintf(&b, `{"step":%d,"group":%d,"sample":%d,"problem":"p","text":%q,"score":{"reward":1}}`+"\n", step, group, sample, text)
	}
	for i := range 20 {
		line(1, i, 0, strings.Repeat("x", 100_000))
	}
	for i := range 30 {
		line(2, i/10, i%10, strings.Repeat("y", 100_000))
	}
	b.WriteString(`{"step":3,"group":0,"sample":0,"text":"half wri`)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rollouts.jsonl"), []byte(b.String()), 0o644))
	var r run
	require.NoError(t, r.readSamples(dir))
	require.Len(t, r.samples, 30)
	for i, s := range r.samples {
		require.Equal(t, [3]int{2, i / 10, i % 10}, [3]int{s.Step, s.Group, s.Sample})
	}

	// If a step is larger than what is read, a truncated group is left out.
	b.Reset()
	for i := range 50 {
		line(2, i/10, i%10, strings.Repeat("z", 100_000))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rollouts.jsonl"), []byte(b.String()), 0o644))
	r = run{}
	require.NoError(t, r.readLastStep(filepath.Join(dir, "rollouts.jsonl"), 3_250_000))
	require.Len(t, r.samples, 30)
	require.Equal(t, 2, r.samples[0].Group)
	require.Equal(t, 0, r.samples[0].Sample)
}

// Any files of a run give a page, and it is well formed.
func FuzzPage(f *testing.F) {
	f.Add([]byte(smallMetrics), []byte(smallTimes), []byte(smallSamples), []byte(smallAdvice), []byte(smallConfig))
	f.Add([]byte(`{"step":1,"grad_norm":1e308}`+"\n"+`{"step":2,"grad_norm":-1e308}`+"\n"), []byte("{}\n"), []byte("{}\n"), []byte("{}\n"),
		[]byte("{}"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, metrics, times, samples, advice, config []byte) {
		for name, text := range map[string][]byte{"metrics.jsonl": metrics, "train_log.jsonl": times, "rollouts.jsonl": samples,
			"run_log.jsonl": advice, "config.json": config} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o644))
		}
		text, err := render(dir, status{}, nil)
		require.NoError(t, err)
		page := string(text)
		d := xml.NewDecoder(strings.NewReader(page))
		for {
			_, err := d.Token()
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
		}
		require.NotContains(t, page, "ZgotmplZ")
		require.Less(t, len(page), 500_000+10*len(metrics))
	})
}

// A speed of 0 was not measured: a step without an update, or with completions from a checkpoint.
func TestASpeedThatWasNotMeasured(t *testing.T) {
	whole := timing{Total: 3, Sample: 1, Train: 1, TokensSec: 50, TrainSec: 70}
	require.Equal(t, whole, whole.settle())
	for _, x := range []timing{{Total: 3, Sample: 1, Train: 0.1}, {Total: 3, TokensSec: 50, TrainSec: 70}} {
		x = x.settle()
		require.True(t, math.IsNaN(x.TokensSec) && math.IsNaN(x.TrainSec), x)
	}
}
