package grpo

import (
	"context"
	"net/http/httptest"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/serving"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/client"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/wire"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/sampler"
)

// tinkerLoop is a program that trains by GRPO over the wire. It uses the problems, prompts and grader of a trainer, which does not train
// itself.
type tinkerLoop struct {
	*Trainer
	session *client.Session
	model   *client.Training
}

// A client of the Tinker server that implements GRPO learns the tiny task. GRPO_TINKER_STEPS is the number of steps; make tinker runs
// 150. Held-out problems are answered greedily before and after.
func TestALoopOverTheWireLearns(t *testing.T) {
	steps, err := strconv.Atoi(os.Getenv("GRPO_TINKER_STEPS"))
	if err != nil {
		t.Skip("a run of minutes: set GRPO_TINKER_STEPS=150, or type make tinker")
	}
	l := &tinkerLoop{Trainer: open(t, nil, "prompts_per_step=8", "completions_per_prompt=16", "max_tokens=96", "max_tests=5",
		"eval_problems=0", "max_steps="+strconv.Itoa(steps))}
	b := backend(t, 2)
	h, err := serving.Open(t.Context(), serving.Options{Models: []serving.NamedDir{{Name: "tiny", Dir: l.policy.Dir}}, Backend: b,
		Model: model.Options{MaxRows: 512, SharePrefixes: true}, Sampling: sampler.Options{MaxLength: 512, Adapters: 2}})
	require.NoError(t, err)
	go h.Run(context.Background())
	s, err := tinker.New(tinker.Options{Store: t.TempDir(), Bases: tinker.Bases(h)})
	require.NoError(t, err)
	web := httptest.NewServer(s)
	defer func() {
		web.Close()
		require.NoError(t, s.Close())
		require.NoError(t, h.Close())
	}()
	l.session, err = (&client.Client{URL: web.URL}).Connect(t.Context())
	require.NoError(t, err)
	l.model, err = l.session.Train(t.Context(), "tiny", l.cfg.LoRARank, int64(l.cfg.Seed))
	require.NoError(t, err)

	before := l.greedy(t)
	for step := 1; step <= steps; step++ {
		mean := l.step(t, step)
		if step%10 == 0 {
			t.Logf("step %d: mean reward %.3f", step, mean)
		}
	}
	after := l.greedy(t)
	t.Logf("%d held-out problems, greedy: %.3f before, %.3f after %d steps", len(l.problems.HeldOut), before, after, steps)
	require.Greater(t, after, before)
}

// draw samples n completions of each prompt, concurrently.
func (l *tinkerLoop) draw(t *testing.T, prompts []Prompt, n int, params map[string]any) []Scored {
	sampling, err := l.model.Sampling(t.Context())
	require.NoError(t, err)
	scored := make([][]Scored, len(prompts))
	var all sync.WaitGroup
	for i, p := range prompts {
		asks := client.SampleParams{N: n, Params: map[string]any{"max_tokens": l.cfg.MaxTokens, "seed": 1000*l.model.Seq + int64(i)}}
		for k, v := range params {
			asks.Params[k] = v
		}
		own := &client.Sampling{Client: sampling.Client, ID: sampling.ID, Seq: int64(i)}
		all.Go(func() { scored[i] = l.grade(t, &p, own, asks) })
	}
	all.Wait()
	var flat []Scored
	for _, s := range scored {
		flat = append(flat, s...)
	}
	require.Len(t, flat, n*len(prompts))
	return flat
}

// grade samples for one prompt, and has the completions judged.
func (l *tinkerLoop) grade(t *testing.T, p *Prompt, sampling *client.Sampling, a client.SampleParams) (scored []Scored) {
	out, err := sampling.Sample(t.Context(), p.Tokens, a)
	if err != nil {
		t.Error(err)
		return nil
	}
	for k, q := range out.Sequences {
		finish := sampler.Stop
		if q.Length {
			finish = sampler.Length
		}
		r := l.rollout(p.Index, sampler.Rollout{Sample: k, Tokens: q.Tokens, LogProbs: q.LogProbs, Finish: finish}, nil)
		score, err := l.judging.Grader.Grade(t.Context(), completion(p, r, l.cfg.MaxTokens, nil))
		if err != nil {
			t.Error(err)
		}
		scored = append(scored, Scored{r, score})
	}
	return scored
}

// step is a GRPO step: both training calls are in flight together.
func (l *tinkerLoop) step(t *testing.T, step int) (mean float64) {
	prompts, err := l.policy.prompts(t.Context(), l.pool.Take(l.cfg.PromptsPerStep), 0)
	require.NoError(t, err)
	scored := l.draw(t, prompts, l.cfg.CompletionsPerPrompt, nil)
	for _, s := range scored {
		mean += s.Score.Reward / float64(len(scored))
	}
	groups, err := compare(t.Context(), gather(prompts, scored), l.learner.Recipe, nil)
	require.NoError(t, err)
	r := wire.ForwardBackward{Loss: "importance_sampling"}
	for _, d := range datums(groups) {
		r.Data = append(r.Data, wireDatum(d))
	}
	if len(r.Data) == 0 {
		return mean
	}
	_, err = l.model.ForwardBackward(t.Context(), r)
	require.NoError(t, err)
	f, err := l.model.OptimStep(t.Context(), l.learner.Rate(step))
	require.NoError(t, err)
	_, err = f.Wait(t.Context())
	require.NoError(t, err)
	return mean
}

// greedy is the share of held-out problems that the model solves greedily.
func (l *tinkerLoop) greedy(t *testing.T) (share float64) {
	prompts, err := l.policy.prompts(t.Context(), append([]data.Problem(nil), l.problems.HeldOut...), 0)
	require.NoError(t, err)
	for _, s := range l.draw(t, prompts, 1, map[string]any{"temperature": 0}) {
		if s.Score.Verdict == reward.AC {
			share += 1 / float64(len(prompts))
		}
	}
	return share
}
