package grpo

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/data/prompt"
	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/optim"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/sampler"
)

// vowels is a grader that needs no sandbox: it pays for the share of vowels in a text.
type vowels struct{ broken func(reward.Completion) bool }

func (v vowels) Grade(_ context.Context, c reward.Completion) (reward.Score, error) {
	if v.broken != nil && v.broken(c) {
		return reward.Score{Excluded: reward.ExcludedInfra, Verdict: reward.INFRA}, nil
	}
	n := 0
	for _, r := range c.Text {
		if strings.ContainsRune("aeiou", r) {
			n++
		}
	}
	share := float64(n) / math.Max(1, float64(len(c.Text)))
	s := reward.Score{Reward: share, Verdict: reward.WA, Components: reward.Components{Fraction: share}}
	if share > 0.5 {
		s.Components.Correct, s.Verdict = 1, reward.AC
	}
	return s, nil
}

// quiet is a watcher that remembers.
type quiet struct {
	metrics  []Metrics
	evals    []Evaluation
	advice   []Advice
	warnings []string
	onStep   func(Metrics)
	onPhase  func(name string)
}

func (q *quiet) Phase(name string, _ int) {
	if q.onPhase != nil {
		q.onPhase(name)
	}
}
func (q *quiet) Advance(int, int) {}
func (q *quiet) StepDone(m Metrics, _ Timing, a []Advice) {
	q.metrics, q.advice = append(q.metrics, m), append(q.advice, a...)
	if q.onStep != nil {
		q.onStep(m)
	}
}
func (q *quiet) Evaluated(e Evaluation, _ []Advice) { q.evals = append(q.evals, e) }
func (q *quiet) Saved(string)                       {}
func (q *quiet) Warn(what string)                   { q.warnings = append(q.warnings, what) }

// setup is a run of the golden model with a small tokenizer.
type setup struct {
	threads   int
	deferred  bool // on a backend that is as opaque and as late as a device
	precision model.Precision
	dir       string // of the run; "": nothing is recorded
	steps     int
	change    func(*Trainer)
}

func (s setup) trainer(t testing.TB) (*Trainer, *quiet) {
	t.Helper()
	var b kernels.Backend
	b, err := cpu.New(cpu.Options{Threads: s.threads})
	require.NoError(t, err)
	if s.deferred {
		b = kerneltest.NewDeferred(b)
	}
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	p, err := model.Open(b, filepath.Join("model", "testdata", "golden", "qwen3-tied"), false, model.Options{Precision: s.precision})
	require.NoError(t, err)
	c := lora.Defaults()
	c.Rank = 8
	layout, err := lora.NewLayout(c, p.LoRADims())
	require.NoError(t, err)
	a := lora.New(layout)
	a.Init(3)
	require.NoError(t, p.Attach(a))
	params, grads, locate := p.Slabs()
	adam, err := optim.NewAdam(b, params, grads, optim.Defaults(), locate)
	require.NoError(t, err)
	voice, err := tokenizer.Load(filepath.Join("data", "tokenizer", "testdata", "small"))
	require.NoError(t, err)
	renderer, err := chat.New("qwen3_instruct", voice)
	require.NoError(t, err)
	e, err := sampler.New(p, sampler.Options{MaxLength: 512, MaxSequences: 16})
	require.NoError(t, err)
	var problems []data.Problem
	for i := range 6 {
		problems = append(problems, data.Problem{ID: fmt.Sprint("p", i), Statement: strings.Repeat("say aeiou ", i+1), Kind: data.Stdin}.WithTests(data.Test{}))
	}
	pool, err := data.NewPool(problems, 5, data.Difficulty{})
	require.NoError(t, err)
	q := &quiet{}
	tr := &Trainer{
		Rules: Rules{Seed: 11, PromptsPerStep: 2, CompletionsPerPrompt: 6, Sampling: sampler.Params{Temperature: 1, MaxTokens: 12},
			Advantage: MeanAdvantage, Objective: model.Objective{Loss: kernels.Loss{Kind: kernels.ImportanceSampling}, Reduction: model.Sum, Temperature: 1},
			Iterations: 1, LearningRate: 0.03, MaxSteps: s.steps, SaveEvery: 2, EvalEvery: 4, Eval: EvalRules{Samples: 2, K: 2, Temperature: 1, Sampling: sampler.Params{MaxTokens: 12}},
			BaseModel: "golden"},
		Parts: Parts{Policy: p, Engine: e, Adam: adam, Problems: pool, HeldOut: problems[:3], Wording: prompt.Default(),
			Renderer: renderer, Tokenizer: voice, Grader: vowels{}, Watcher: q},
	}
	if s.change != nil {
		s.change(tr)
	}
	if s.dir != "" {
		o := origin{}
		if all, err := Checkpoints(s.dir); err == nil && len(all) > 0 {
			o, err = tr.named("run_dir", s.dir)
			require.NoError(t, err)
		}
		require.NoError(t, tr.begin(s.dir, o))
		t.Cleanup(func() { tr.record.Close() })
	}
	return tr, q
}

func TestRewardRisesAndTheFirstUpdateIsOnPolicy(t *testing.T) {
	tr, q := setup{steps: 40, change: func(tr *Trainer) { tr.EvalEvery = -1 }}.trainer(t)
	require.NoError(t, tr.Run(t.Context()))
	require.Len(t, q.metrics, 40)
	early, late := 0.0, 0.0
	for i, m := range q.metrics {
		require.Zero(t, m.OnPolicy, "step %d", m.Step)
		require.True(t, m.Updated)
		if i < 5 {
			early += m.MeanReward / 5
		} else if i >= 35 {
			late += m.MeanReward / 5
		}
	}
	t.Logf("mean reward of the first five steps %.3f, of the last five %.3f", early, late)
	require.Greater(t, late, early+0.15)
}

// files reads what a run left behind that must not depend on the clock.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	newest, s, damaged, err := newestCheckpoint(dir)
	require.NoError(t, err)
	require.Empty(t, damaged)
	for _, name := range []string{adapterDir + "/adapter_model.safetensors", momentsFile, aheadFile} {
		text, err := os.ReadFile(filepath.Join(newest, name))
		if name != aheadFile {
			require.NoError(t, err)
		}
		out[name] = string(text)
	}
	s.Logs = nil // some of them tell the time
	text, err := json.Marshal(s)
	require.NoError(t, err)
	out[stateFile] = string(text)
	for _, name := range []string{metricsFile, rolloutsFile} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		out[name] = string(text)
	}
	return out
}

// requireSame shows where two runs part.
func requireSame(t *testing.T, want, got map[string]string) {
	t.Helper()
	for name, text := range want {
		other := got[name]
		at := 0
		for at < min(len(text), len(other)) && text[at] == other[at] {
			at++
		}
		if text != other {
			show := func(s string) string { return s[max(0, min(at-80, len(s))):min(at+80, len(s))] }
			require.Failf(t, "the runs differ", "%s at byte %d:\n  %q\n  %q", name, at, show(text), show(other))
		}
	}
}

func TestRunsAreEqualToTheByte(t *testing.T) {
	var want map[string]string
	for _, s := range []setup{{threads: 1}, {threads: 4}, {deferred: true}, {threads: 2, change: func(tr *Trainer) { tr.ScoreWhenDone = true }}} {
		s.dir, s.steps = t.TempDir(), 5
		tr, _ := s.trainer(t)
		require.NoError(t, tr.Run(t.Context()))
		got := files(t, s.dir)
		if want == nil {
			want = got
		}
		requireSame(t, want, got)
	}
}

// Where numbers are rounded, runs are equal likewise, the ratio is 1 at the start of every step; and they are other runs.
func TestRoundedRunsAreEqualToTheByte(t *testing.T) {
	run := func(s setup) map[string]string {
		s.dir, s.steps = t.TempDir(), 5
		s.change = func(tr *Trainer) { tr.Deterministic = true } // or the run would go on where the two differ
		tr, _ := s.trainer(t)
		require.NoError(t, tr.Run(t.Context()))
		return files(t, s.dir)
	}
	want := run(setup{threads: 1, precision: model.BF16})
	requireSame(t, want, run(setup{threads: 3, precision: model.BF16}))
	require.NotEqual(t, want, run(setup{threads: 1}))
}

func TestADamagedCheckpointIsNamedAndTheOneBeforeUsed(t *testing.T) {
	dir := t.TempDir()
	tr, _ := setup{dir: dir, steps: 4}.trainer(t)
	require.NoError(t, tr.Run(t.Context()))
	all, err := Checkpoints(dir)
	require.NoError(t, err)
	require.Len(t, all, 2)
	path := filepath.Join(all[0], momentsFile)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	text[len(text)-1] ^= 1
	require.NoError(t, os.WriteFile(path, text, 0o644))

	newest, s, damaged, err := newestCheckpoint(dir)
	require.NoError(t, err)
	require.Equal(t, all[1], newest)
	require.Equal(t, 2, s.Step)
	require.Len(t, damaged, 1)
	require.ErrorContains(t, damaged[0], "step_000004: optimizer.safetensors is damaged")
}

func TestTheLastAndTheBestCheckpointsStay(t *testing.T) {
	dir := t.TempDir()
	tr, q := setup{dir: dir, steps: 10, change: func(tr *Trainer) { tr.KeepLast, tr.KeepBest, tr.EvalEvery = 2, 1, 2 }}.trainer(t)
	require.NoError(t, tr.Run(t.Context()))
	best := q.evals[0]
	for _, e := range q.evals {
		if e.Greedy > best.Greedy {
			best = e
		}
	}
	all, err := Checkpoints(dir)
	require.NoError(t, err)
	var names []string
	for _, c := range all {
		names = append(names, filepath.Base(c))
	}
	require.Subset(t, names, []string{"step_000010", "step_000008"})
	if best.Step > 0 {
		require.Contains(t, names, stepName(best.Step))
	}
	require.LessOrEqual(t, len(names), 3)
}

func TestWhatTheMachineFailedToScoreIsLeftOut(t *testing.T) {
	var n atomic.Int32 // completions are graded side by side
	tr, q := setup{steps: 1, change: func(tr *Trainer) {
		tr.EvalEvery, tr.ScoreWhenDone = -1, true
		tr.Grader = vowels{broken: func(c reward.Completion) bool { return n.Add(1) == 1 }}
	}}.trainer(t)
	m, _, err := tr.Step(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, m.RewardErrors)
	require.Equal(t, 11, m.Datums)
	require.Empty(t, q.warnings)
}

func TestAdvantages(t *testing.T) {
	group := func(rewards ...float64) *Group {
		g := &Group{}
		for _, r := range rewards {
			g.Scores = append(g.Scores, reward.Score{Reward: r})
		}
		return g
	}
	g := group(0, 1)
	g.setAdvantages(MeanAdvantage)
	require.Equal(t, []float64{-0.5, 0.5}, g.Advantages)
	require.False(t, g.Degenerate())
	g.setAdvantages(StdAdvantage)
	require.Equal(t, []float64{-1, 1}, g.Advantages)
	g = group(0.3, 0.3, 0.3)
	g.setAdvantages(StdAdvantage)
	require.True(t, g.Degenerate())
	g = group(1, 5, 0)
	g.Scores[1].Excluded = reward.ExcludedInfra
	g.setAdvantages(MeanAdvantage)
	require.Equal(t, []float64{0.5, 0, -0.5}, g.Advantages)
}

func TestNothingToLearnMeansNoUpdate(t *testing.T) {
	tr, _ := setup{steps: 1, change: func(tr *Trainer) { tr.Grader = constant{} }}.trainer(t)
	before, err := tr.Policy.Adapter()
	require.NoError(t, err)
	m, _, err := tr.Step(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, m.GroupsSkipped)
	require.False(t, m.Updated)
	require.Zero(t, tr.Adam.Steps())
	after, err := tr.Policy.Adapter()
	require.NoError(t, err)
	require.Equal(t, before.Values, after.Values)
}

type constant struct{}

func (constant) Grade(context.Context, reward.Completion) (reward.Score, error) {
	return reward.Score{Reward: 1, Components: reward.Components{Correct: 1}}, nil
}

func TestPassAtK(t *testing.T) {
	require.InDelta(t, 0.3, passAtK(10, 3, 1), 1e-12)
	require.InDelta(t, 1-(7.0/10)*(6.0/9), passAtK(10, 3, 2), 1e-12)
	require.Equal(t, 1.0, passAtK(4, 2, 3))
	require.Zero(t, passAtK(4, 0, 4))
}

func TestMetricsCarryNoClock(t *testing.T) {
	text, err := json.Marshal(Metrics{})
	require.NoError(t, err)
	for _, word := range []string{"_s\"", "time", "per_s"} {
		require.NotContains(t, string(text), word)
	}
}

// What the machine failed to judge in an evaluation is neither right nor wrong; what was cut off is wrong.
func TestAnEvaluationLeavesOutWhatWasNotJudged(t *testing.T) {
	grade := func(s reward.Score) Evaluation {
		tr, _ := setup{steps: 1, change: func(tr *Trainer) {
			tr.Grader = byProblem{"p0": {Excluded: reward.ExcludedInfra, Verdict: reward.INFRA}, "p1": s, "p2": {Verdict: reward.AC, Reward: 1, Components: reward.Components{Correct: 1}}}
		}}.trainer(t)
		e, err := tr.Evaluate(t.Context())
		require.NoError(t, err)
		return e
	}
	e := grade(reward.Score{Verdict: reward.WA})
	require.Equal(t, 0.5, e.Greedy)
	require.Equal(t, 1.0, e.FormatRate)
	require.Equal(t, 3, e.NotJudged, "one greedy and two sampled")
	require.Equal(t, 0.5, e.PassAt1)
	require.Equal(t, 0.5, e.BestOfK)

	e = grade(reward.Score{Excluded: reward.ExcludedTruncated})
	require.Equal(t, 0.5, e.Greedy)
	require.Equal(t, 0.5, e.FormatRate)
	require.Equal(t, 0.5, e.PassAtK)
	require.Equal(t, 3, e.NotJudged)
}

// byProblem grades by the problem alone.
type byProblem map[string]reward.Score

func (b byProblem) Grade(_ context.Context, c reward.Completion) (reward.Score, error) {
	return b[c.Problem.ID], nil
}
