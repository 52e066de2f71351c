package grpo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/autopilot"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/sampler"
)

// A draw depends only on the seed, the step, the problem and the sample. With an unchanged policy, a step draws the same whether it is
// sampled ahead or not, and whether the pool deals its problems or the caller names them; no two steps draw alike.
func TestADrawIsOfItsStep(t *testing.T) {
	sampled := func(words []string, named bool) (steps []string) {
		words = append(words, "max_steps=3", "eval_every=-1", "prompts_per_step=6")
		still := func(rewards []float64) []float64 { return make([]float64, len(rewards)) }
		tr, _ := setup{words: words, options: []Option{WithAdvantage(still), WithGroups(func(step int, groups []Group) error {
			require.Equal(t, len(steps)+1, step)
			text := ""
			for _, g := range groups {
				for _, r := range g.Rollouts {
					text += fmt.Sprintln(g.Problem.ID, r.Sample, r.Tokens)
				}
			}
			steps = append(steps, text)
			return nil
		})}}.open(t)
		for range 3 {
			var subset []data.Problem
			if named {
				subset = tr.pool.Take(6)
			}
			_, err := tr.Step(t.Context(), subset, StepOptions{})
			require.NoError(t, err)
		}
		return steps
	}
	want := sampled([]string{"pipeline=off"}, false)
	require.NotEqual(t, want[0], want[1])
	require.Equal(t, want, sampled([]string{"pipeline=full"}, false))
	require.Equal(t, want, sampled([]string{"pipeline=off"}, true))
}

// An evaluation draws other completions of a problem than any step.
func TestAnEvaluationIsNoStep(t *testing.T) {
	var drawn [][]int32
	keep := func(_ int, groups []Group) error {
		for _, g := range groups {
			for _, r := range g.Rollouts {
				drawn = append(drawn, r.Tokens)
			}
		}
		return nil
	}
	still := func(rewards []float64) []float64 { return make([]float64, len(rewards)) }
	tr, _ := setup{words: []string{"eval_every=-1"}, options: []Option{WithAdvantage(still), WithGroups(keep)}}.open(t)
	evaluated, err := tr.Sample(t.Context(), tr.HeldOut(), 6, float32(tr.cfg.Temperature))
	require.NoError(t, err)
	require.NoError(t, keep(0, evaluated))
	other := drawn
	for range 3 {
		drawn = nil
		_, err := tr.Step(t.Context(), tr.HeldOut(), StepOptions{})
		require.NoError(t, err)
		require.Len(t, drawn, len(other))
		require.NotEqual(t, other, drawn)
	}
}

// A deterministic run ends if sampler and trainer disagree about draws of the current policy. For draws of an older policy, sampled
// ahead, that is no reason.
func TestADeterministicRunKnowsWhatIsOld(t *testing.T) {
	words := []string{"deterministic=true", "eval_every=-1", "max_steps=3"}
	tr, l := setup{words: append(words, "pipeline=full")}.open(t)
	require.NoError(t, tr.Run(t.Context()))
	require.Zero(t, l.metrics[0].OnPolicy)
	require.Positive(t, l.metrics[2].OnPolicy)

	tr, l = setup{words: append(words, "pipeline=off"), options: []Option{WithGroups(func(step int, groups []Group) error {
		if step == 2 {
			groups[0].Rollouts[0].LogProbs[0] += 0.5 // as if sampler and trainer disagreed
		}
		return nil
	})}}.open(t)
	require.ErrorContains(t, tr.Run(t.Context()), "step 2: sampler and trainer disagree by 0.5")
	require.Len(t, l.metrics, 1)
}

// Problems that every completion solves, or none, are dealt rarely from then on; a problem without a valid score counts as not tried.
func TestProblemsThatTeachNothingAreDealtSeldom(t *testing.T) {
	lost := true
	grader := func(ctx context.Context, c reward.Completion) (reward.Score, error) {
		switch c.Problem.ID {
		case "p0":
			return reward.Score{Reward: 1, Components: reward.Components{Correct: 1}}, nil
		case "p1":
			return reward.Score{}, nil
		case "p2":
			if lost {
				return reward.Score{Excluded: reward.ExcludedInfra}, nil
			}
		}
		right := float64(c.Place % 2)
		return reward.Score{Reward: right, Components: reward.Components{Correct: right}}, nil
	}
	var dealt []string
	words := []string{"prompts_per_step=6", "eval_every=-1", "difficulty_patience=1", "difficulty_keep=0.01"}
	tr, _ := setup{words: words, options: []Option{WithGrader(reward.GraderFunc(grader)), WithGroups(func(_ int, groups []Group) error {
		for _, g := range groups {
			dealt = append(dealt, g.Problem.ID)
		}
		return nil
	})}}.open(t)
	_, err := tr.Step(t.Context(), nil, StepOptions{})
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"p0", "p1", "p2", "p3", "p4", "p5"}, dealt)
	require.Equal(t, map[string]int{"p0": 1, "p1": -1}, tr.pool.Cursor().Streaks)
	dealt, lost, tr.cfg.PromptsPerStep = nil, false, 4
	_, err = tr.Step(t.Context(), nil, StepOptions{})
	require.NoError(t, err)
	require.NotContains(t, dealt, "p0")
	require.NotContains(t, dealt, "p1")
	require.Contains(t, dealt, "p2")
}

// After a resume, the grader gets completions sampled ahead exactly as in the run that sampled them.
func TestWhatIsScoredAgainIsTheSame(t *testing.T) {
	seen := make(chan reward.Completion, 1000)
	grader := func(ctx context.Context, c reward.Completion) (reward.Score, error) {
		seen <- c
		return vowels(ctx, c)
	}
	s := setup{dir: t.TempDir(), words: []string{"pipeline=full", "eval_every=-1", "max_tokens=5"},
		options: []Option{WithGrader(reward.GraderFunc(grader))}}
	shown := func(tr *Trainer) map[string]string {
		_, err := tr.awaitScores(t.Context(), tr.ahead)
		require.NoError(t, err)
		all := map[string]string{}
		for len(seen) > 0 {
			c := <-seen
			require.Equal(t, 5, c.MaxTokens)
			peers := reflect.ValueOf(c.Peers).Elem().FieldByName("resolved").Len() // what a joint grader of the group reads
			all[fmt.Sprint(c.Problem.ID, c.Place)] = fmt.Sprint(c.Text, c.Truncated, c.Tokens, c.MaxTokens, peers)
		}
		return all
	}
	tr, _ := s.open(t)
	_, err := tr.Step(t.Context(), nil, StepOptions{})
	require.NoError(t, err)
	before := shown(tr)
	_, err = tr.Save(t.Context())
	require.NoError(t, err)
	require.NoError(t, tr.Close())
	tr, _ = s.open(t)
	again := shown(tr)
	require.Len(t, again, 2*6)
	for key, c := range again {
		require.Equal(t, before[key], c)
	}
}

// If one of several problems makes the gradient non-finite, it is named, and no other.
func TestTheProblemThatIsTheCauseIsNamed(t *testing.T) {
	grader := func(ctx context.Context, c reward.Completion) (reward.Score, error) {
		s := reward.Score{Reward: float64(c.Place % 2)}
		if c.Problem.ID == "p3" {
			s.Reward *= 1e30 // its square overflows a float32
		}
		return s, nil
	}
	tr, l := setup{words: []string{"eval_every=-1", "prompts_per_step=6"}, options: []Option{WithGrader(reward.GraderFunc(grader))}}.open(t)
	m, err := tr.Step(t.Context(), nil, StepOptions{})
	require.NoError(t, err)
	require.False(t, m.Updated)
	require.Regexp(t, `the cause: sample \d of problem p3(, sample \d of problem p3)*$`, l.warnings[len(l.warnings)-1])
}

// With an autopilot, an update that makes weights non-finite does not end the run: it goes back, and continues with a smaller rate.
func TestTheAutopilotGoesBackFromAnUpdateThatBreaks(t *testing.T) {
	s := setup{dir: t.TempDir(), words: withPilot("learning_rate=1e20", "max_steps=2")}
	tr, l := s.open(t)
	run(t, tr)
	require.Equal(t, autopilot.RolledBack, readDeeds(t, s.dir)[0].Did)
	require.NotEmpty(t, l.metrics)
}

// Truncation of draws applies to evaluations: with top_k=1, completions are greedy.
func TestDrawsOfAnEvaluationAreTruncated(t *testing.T) {
	differ := func(words ...string) bool {
		tr, _ := setup{words: words}.open(t)
		groups, err := tr.Sample(t.Context(), tr.HeldOut()[:1], 3, 1)
		require.NoError(t, err)
		greedy, err := tr.Sample(t.Context(), tr.HeldOut()[:1], 1, 0)
		require.NoError(t, err)
		for _, r := range groups[0].Rollouts {
			if r.Text != greedy[0].Rollouts[0].Text {
				return true
			}
		}
		return false
	}
	require.True(t, differ())
	for _, word := range []string{"eval_top_k=1", "eval_top_p=0.000001", "eval_min_p=1"} {
		require.False(t, differ(word), word)
	}
}

// A completion ends with a token that ends a turn, and has none before its end; or at max_tokens, or at the model's last position.
func TestWhereCompletionsEnd(t *testing.T) {
	dir, most := t.TempDir(), 70
	require.NoError(t, os.CopyFS(dir, os.DirFS("data/tokenizer/testdata/small")))
	require.NoError(t, os.CopyFS(dir, os.DirFS("model/testdata/golden/qwen3-tied")))
	config, err := os.ReadFile(filepath.Join(dir, "config.json"))
	require.NoError(t, err)
	config = bytes.Replace(config, []byte("40960"), []byte(strconv.Itoa(most)), 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644))
	tr, _ := setup{}.open(t)
	cfg := *tr.Settings()
	cfg.Model, cfg.TestData = dir, filepath.Join(goldenModel(t), "p.jsonl")
	e, err := OpenEvaluator(t.Context(), &cfg, backend(t, 0), nil, WithGrader(reward.GraderFunc(vowels)))
	require.NoError(t, err)
	defer e.Close()
	groups, err := e.Sample(t.Context(), []data.Problem{e.HeldOut()[0], e.HeldOut()[5]}, 100, 1)
	require.NoError(t, err)
	stopped, cut := 0, 0
	for _, g := range groups {
		for _, r := range g.Rollouts {
			last := len(r.Tokens) - 1
			for i, token := range r.Tokens {
				require.Equal(t, i == last && r.Finish == sampler.Stop, slices.Contains(e.policy.Stops, token))
			}
			switch room := most - len(g.Tokens); {
			case r.Finish == sampler.Stop:
				stopped++
			case room < 12:
				require.Len(t, r.Tokens, room)
				cut++
			default:
				require.Len(t, r.Tokens, 12)
			}
		}
	}
	require.Positive(t, stopped)
	require.Positive(t, cut)
}

// Groups with equal rewards are counted, with the tokens drawn for them.
func TestWhatWasDrawnInVain(t *testing.T) {
	group := func(tokens int, advantages ...float64) (g Group) {
		g.Advantages = advantages
		for range advantages {
			g.Rollouts = append(g.Rollouts, Scored{Rollout: Rollout{Tokens: make([]int32, tokens)}})
		}
		return g
	}
	s := groupStats([]Group{group(3, 0, 0), group(50, 1, -1), group(4, 0, 0)})
	require.Equal(t, []int{3, 2, 2*3 + 2*4}, []int{s.GroupsTotal, s.GroupsSkipped, s.WastedTokens})
}

// Completions sampled ahead by a step that fails are not scored any more, nor are those of an evaluation that is cancelled.
func TestNobodyScoresWhatIsGivenUp(t *testing.T) {
	var scoring atomic.Int32
	never := func(ctx context.Context) (reward.Score, error) {
		scoring.Add(1)
		defer scoring.Add(-1)
		<-ctx.Done()
		return reward.Score{}, ctx.Err()
	}
	ahead, fails := make(chan struct{}, 100), map[string]bool{}
	grader := func(ctx context.Context, c reward.Completion) (reward.Score, error) {
		if fails[c.Problem.ID] {
			<-ahead
			return reward.Score{}, errors.New("no sandbox")
		}
		ahead <- struct{}{}
		return never(ctx)
	}
	tr, _ := setup{words: []string{"pipeline=full", "eval_every=-1"}, options: []Option{WithGrader(reward.GraderFunc(grader))}}.open(t)
	cursor := tr.pool.Cursor()
	for _, p := range tr.pool.Take(tr.cfg.PromptsPerStep) {
		fails[p.ID] = true
	}
	_, err := tr.pool.Restore(cursor)
	require.NoError(t, err)
	_, err = tr.Step(t.Context(), nil, StepOptions{})
	require.ErrorContains(t, err, "no sandbox")
	require.Nil(t, tr.ahead)
	require.Zero(t, scoring.Load())

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	grader = func(ctx context.Context, _ reward.Completion) (reward.Score, error) {
		cancel()
		return never(ctx)
	}
	tr, _ = setup{words: []string{"pipeline=off", "eval_every=-1"}, options: []Option{WithGrader(reward.GraderFunc(grader))}}.open(t)
	_, err = tr.Evaluate(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, scoring.Load())
}
