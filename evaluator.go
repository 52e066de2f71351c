package grpo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/conversation"
	"github.com/seed-7879b91d/grpo/internal/footprint"
	"github.com/seed-7879b91d/grpo/internal/judging"
	"github.com/seed-7879b91d/grpo/internal/meter"
	"github.com/seed-7879b91d/grpo/internal/precondition"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/sources"
	"github.com/seed-7879b91d/grpo/internal/stats"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/sampler"
)

// Evaluator samples completions from a policy and scores them. It trains nothing, and opens no training problems.
type Evaluator struct {
	cfg           *configs.Config
	watcher       Watcher
	policy        *policy
	problems      *sources.Problems
	sampling      *sampling
	judging       *judging.Judging
	conversations *conversation.Sampler // nil: completions are one turn
	learns        bool                  // it is part of a Trainer
	trainedDir    string                // directory of the adapter or model that the policy is loaded from
	step          int                   // training steps that the policy has behind it
	leftOut       []string              // held-out problems to skip, as the policy was trained on them
	baseline      stats.Judged          // an earlier evaluation to compare with; zero: none
	turn          sync.Locker           // the lock on the backend, held while anything is computed
	closers       []io.Closer
	closed        bool
}

var errClosed = errors.New("grpo: used after Close")

// OpenEvaluator opens model, held-out problems, sampler and grader of a configuration, on a backend that the caller closes
// after Close. The watcher may be nil. It honours WithGrader, WrapGrader, WithEnvironment, Beside and WithTurn.
func OpenEvaluator(ctx context.Context, cfg *configs.Config, b kernels.Backend, w Watcher, options ...Option) (*Evaluator, error) {
	precondition.NotNil("grpo.OpenEvaluator", "ctx", ctx, "cfg", cfg, "b", b)
	settings := *cfg
	e := &Evaluator{cfg: &settings, watcher: watcherOrNobody(w), trainedDir: cfg.Adapter}
	err := cfg.Validate()
	if err == nil {
		err = e.open(ctx, b, collect(options))
	}
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// open opens policy, problems, grader and sampler. The order lets mistakes of the user, and runs that cannot fit into
// memory, fail early: before the weights are loaded, and where the prompts do not matter, before the problems are read.
func (e *Evaluator) open(ctx context.Context, b kernels.Backend, o custom) (err error) {
	e.turn = o.turn
	if e.cfg.Order, err = kernels.Choose(b, e.cfg.Order); err != nil {
		return badinput.Errorf("order: %w", err)
	}
	if err = provenance.CheckIntact(e.trainedDir); err != nil {
		return err
	}
	if e.policy, err = openLanguage(ctx, e.cfg); err != nil {
		return err
	}
	if err = provenance.CheckBase(e.trainedDir, e.policy.Dir); err != nil {
		return err
	}
	run := footprint.Run{Config: e.cfg, Backend: b, Dir: e.policy.Dir, Trains: e.learns, Loaded: o.model != nil,
		LocalSandbox: o.grader == nil && e.cfg.Sandbox != "fusion"}
	if _, err = footprint.Estimate(run); err != nil {
		return err
	}
	if e.learns {
		e.problems, err = sources.OpenRun(ctx, e.cfg, e.policy.Language, e.watcher.Warn)
	} else {
		e.problems, err = sources.OpenHeldOut(ctx, e.cfg, e.leftOut, e.policy.Language, e.watcher.Warn)
	}
	if err != nil {
		return err
	}
	e.closers = append(e.closers, e.problems)
	if e.judging, err = judging.Open(ctx, e.cfg, o.grader, o.wrap, e.problems, e.watcher.Warn); err != nil {
		return err
	}
	e.closers = append(e.closers, e.judging)
	if e.conversations, err = conversation.Open(ctx, e.cfg, e.policy.Language, e.judging, e.problems, o.env); err != nil {
		return err
	}
	if e.conversations != nil {
		e.closers = append(e.closers, e.conversations)
		for _, note := range e.conversations.Notes {
			e.watcher.Warn(note)
		}
	}
	if e.sampling, err = planSampling(ctx, run, e.policy, e.problems); err != nil {
		return err
	}
	e.turn.Lock()
	defer e.turn.Unlock()
	if err = e.policy.load(ctx, e.cfg, b, e.sampling.memory.Model, o.model); err != nil {
		return err
	}
	e.cfg.MaxRows = e.policy.MaxRows
	footprint.Record(e.cfg, e.policy.Options)
	return e.sampling.open(e.policy, e.learns, o.turn)
}

// Close releases everything that was opened, but for the backend.
func (e *Evaluator) Close() error {
	var errs []error
	for _, c := range slices.Backward(e.closers) {
		errs = append(errs, c.Close())
	}
	e.closers, e.closed = nil, true
	return errors.Join(errs...)
}

// HeldOut are the problems that Evaluate measures on.
func (e *Evaluator) HeldOut() []data.Problem { return e.problems.HeldOut }

// TooLong counts problems by their prompts: out leave no position of the model for a completion, and are left out; cut
// have room for fewer than max_tokens.
func (e *Evaluator) TooLong() (out, cut int) { return e.problems.NoRoom, e.problems.LessRoom }

// Settings are the settings that it was opened with.
func (e *Evaluator) Settings() *configs.Config { return e.cfg }

// Language has the policy's tokenizer, chat template and prompt wording.
func (e *Evaluator) Language() *Language { return e.policy.Language }

// Sandbox describes where programs run.
func (e *Evaluator) Sandbox() reward.Backend { return e.judging.Sandbox }

// Sample draws n completions of each problem from the current policy and scores them, with the top-k, top-p and min-p of
// evaluation (eval_top_p …). Temperature 0 is greedy. The draws depend on the seed and the index of the problem alone:
// asked again, the same policy answers the same.
func (e *Evaluator) Sample(ctx context.Context, problems []data.Problem, n int, temperature float32) ([]Group, error) {
	a, err := e.attempt(ctx, problems, n, temperature)
	return a.Groups, err
}

// evaluationStep takes the place of the step in the keys of draws, so that evaluation never repeats draws of training.
const evaluationStep = -1

// attempt samples and scores n completions of each problem.
func (e *Evaluator) attempt(ctx context.Context, problems []data.Problem, n int, temperature float32) (a Attempt, err error) {
	precondition.NotNil("grpo.Evaluator", "ctx", ctx)
	if e.closed {
		return a, errClosed
	}
	if n < 1 {
		return a, badinput.Errorf("%d completions of each problem, expected 1 or more", n)
	}
	prompts, err := e.policy.prompts(ctx, problems, 0)
	if err != nil {
		return a, err
	}
	params := e.sampling.eval
	params.Temperature = temperature
	watch := meter.Start()
	g, err := e.sample(ctx, prompts, evaluationStep, n, params)
	if err != nil {
		return a, err
	}
	a.Seconds = watch.Lap()
	scored, err := e.wait(ctx, g)
	if err != nil {
		return a, errors.Join(err, g.Abandon())
	}
	a.Groups = gather(prompts, scored)
	a.Conversations = conversations(a.Groups)
	return a, nil
}

// grading is a batch of rollouts that are being scored.
type grading = reward.Batch[Rollout]

// sample draws n completions of each prompt. Scoring overlaps with sampling: each completion is scored as soon as it is
// finished, with pipeline=off only after the last one is. The batch that it returns may still be waiting for scores.
func (e *Evaluator) sample(ctx context.Context, prompts []Prompt, step, n int, params sampler.Params) (*grading, error) {
	total := n * len(prompts)
	e.watcher.Phase("sample", total)
	g := reward.NewBatch[Rollout](ctx, e.judging.Grader, total, e.cfg.Pipeline == "off")
	sampling, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer g.Broken(stop)() // a grader that fails ends the sampling
	err := e.sampleInto(sampling, prompts, step, n, params, g)
	if err == nil {
		g.Close()
		return g, nil
	}
	if gerr := g.Abandon(); gerr != nil {
		return nil, fmt.Errorf("score: %w", gerr) // the cause: sampling was only cancelled
	}
	return nil, fmt.Errorf("sample: %w", err)
}

// sampleInto samples into g: completions for g to score, or conversations, whose environment has scored them already.
func (e *Evaluator) sampleInto(ctx context.Context, prompts []Prompt, step, n int, params sampler.Params, g *grading) error {
	requests, asks := make([]sampler.Request, len(prompts)), make([]conversation.Request, len(prompts))
	for i := range prompts {
		p := &prompts[i]
		asks[i] = conversation.Request{Problem: &p.Problem, Key: sampler.Key{Seed: e.cfg.Seed, Step: step, Problem: p.Index}}
		requests[i] = sampler.Request{Prompt: p.Tokens, N: n, Params: params, Key: asks[i].Key}
		requests[i].Params.MaxTokens = min(params.MaxTokens, max(e.policy.Shape.MaxPositions-len(p.Tokens), 1))
	}
	if e.conversations != nil {
		return e.conversations.Sample(ctx, e.sampling.engine, asks, n, params, func(d conversation.Result) {
			g.Settle(e.rollout(prompts[d.Request].Index, d.Rollout, d.Record), d.Record.Score)
			e.watcher.Advance(1, d.Record.Drawn(len(d.Tokens)))
		})
	}
	peers := make([]*reward.Peers, len(prompts))
	for i := range peers {
		peers[i] = reward.NewPeers(n)
	}
	_, err := e.sampling.engine.Sample(ctx, requests, sampler.Events{Done: func(r sampler.Rollout) {
		p := &prompts[r.Request]
		rollout := e.rollout(p.Index, r, nil)
		g.Add(rollout, completion(p, rollout, params.MaxTokens, peers[r.Request]))
		e.watcher.Advance(1, len(r.Tokens))
	}})
	return err
}

// rollout is a rollout of the sampler with its text.
func (e *Evaluator) rollout(group int, r sampler.Rollout, c *Conversation) Rollout {
	return Rollout{Group: group, Sample: r.Sample, Tokens: r.Tokens, LogProbs: r.LogProbs, Finish: r.Finish, Conversation: c,
		Text: e.policy.Tokenizer.Text(r.Tokens)}
}

// completion is a rollout as a grader sees it.
func completion(p *Prompt, r Rollout, maxTokens int, peers *reward.Peers) reward.Completion {
	return reward.Completion{Problem: &p.Problem, Text: r.Text, Truncated: r.Finish == sampler.Length,
		Tokens: len(r.Tokens), MaxTokens: maxTokens, Peers: peers, Place: r.Sample}
}

// wait waits until every rollout of a batch has its score.
func (e *Evaluator) wait(ctx context.Context, g *grading) ([]Scored, error) {
	if n := g.Missing(); n > 0 {
		e.watcher.Phase("score", n)
	}
	marked, err := g.Wait(ctx, func() { e.watcher.Advance(1, 0) })
	scored := make([]Scored, len(marked))
	for i, m := range marked {
		scored[i] = Scored{m.Item, m.Score}
		e.judging.Inspect(m.Score)
	}
	for _, w := range e.judging.Warnings() {
		e.watcher.Warn(w)
	}
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("score: %w", err)
	}
	return scored, err
}
