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
	"github.com/seed-7879b91d/grpo/internal/given"
	"github.com/seed-7879b91d/grpo/internal/judging"
	"github.com/seed-7879b91d/grpo/internal/meter"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/sources"
	"github.com/seed-7879b91d/grpo/internal/stats"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/sampler"
)

// Evaluator asks a policy and has its answers scored. Nothing in it learns, and it opens no problems to train on.
type Evaluator struct {
	cfg      *configs.Config
	watcher  Watcher
	policy   *policy
	problems *sources.Problems
	sampling *sampling
	judging  *judging.Judging
	room     *conversation.Room // nil: completions are one turn
	learns   bool               // it is a trainer's
	trained  string             // the directory of the adapter or model that the policy is restored from or begins with
	step     int                // that the policy is of
	leftOut  []string           // held-out problems that the policy was trained on
	before   stats.Judged       // what it is compared with; nothing: none
	turn     sync.Locker        // held while something is computed
	closers  []io.Closer
	closed   bool
}

var errClosed = errors.New("grpo: used after Close")

// OpenEvaluator opens what a configuration says of a model and of evaluating it, on a backend that the caller
// closes after Close. The watcher may be nil. Of the options it knows those of grading, environments and turns.
func OpenEvaluator(ctx context.Context, cfg *configs.Config, b kernels.Backend, w Watcher, options ...Option) (*Evaluator, error) {
	given.All("grpo.OpenEvaluator", "ctx", ctx, "cfg", cfg, "b", b)
	settings := *cfg
	e := &Evaluator{cfg: &settings, watcher: watcherOrNobody(w), trained: cfg.Adapter}
	err := cfg.Validate()
	if err == nil {
		err = e.open(ctx, b, collect(options))
	}
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// open opens policy, problems, judging and sampling. What the user can have wrong is found before a model is loaded, and
// so is what cannot fit into the memory; where that does not hang on the prompts, before the problems are opened.
func (e *Evaluator) open(ctx context.Context, b kernels.Backend, o custom) (err error) {
	e.turn = o.turn
	if e.cfg.Order, err = kernels.Choose(b, e.cfg.Order); err != nil {
		return badinput.Errorf("order: %w", err)
	}
	if err = provenance.CheckWhole(e.trained); err != nil {
		return err
	}
	if e.policy, err = openLanguage(ctx, e.cfg); err != nil {
		return err
	}
	if err = provenance.CheckBase(e.trained, e.policy.Dir); err != nil {
		return err
	}
	run := footprint.Run{Config: e.cfg, Backend: b, Dir: e.policy.Dir, Learns: e.learns, Loaded: o.model != nil,
		Cells: o.grader == nil && e.cfg.Sandbox != "fusion"}
	if _, err = footprint.Of(run); err != nil {
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
	if e.room, err = conversation.Open(ctx, e.cfg, e.policy.Language, e.judging, e.problems, o.env); err != nil {
		return err
	}
	if e.room != nil {
		e.closers = append(e.closers, e.room)
		for _, note := range e.room.Notes {
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

// Close gives back what was opened, but for the backend.
func (e *Evaluator) Close() error {
	var errs []error
	for _, c := range slices.Backward(e.closers) {
		errs = append(errs, c.Close())
	}
	e.closers, e.closed = nil, true
	return errors.Join(errs...)
}

// HeldOut are the problems that are evaluated.
func (e *Evaluator) HeldOut() []data.Problem { return e.problems.HeldOut }

// TooLong is how many problems have no room for a completion in the model's positions, and are left out, and how many
// others for one of max_tokens.
func (e *Evaluator) TooLong() (out, cut int) { return e.problems.NoRoom, e.problems.LessRoom }

// Settings are those that it was opened with.
func (e *Evaluator) Settings() *configs.Config { return e.cfg }

// Language is what the policy is spoken to in.
func (e *Evaluator) Language() *Language { return e.policy.Language }

// Sandbox is where programs run.
func (e *Evaluator) Sandbox() reward.Backend { return e.judging.Sandbox }

// Sample draws n completions of each problem from the policy as it is, and scores them, with the truncation
// that evaluation has (eval_top_p and the like). At temperature 0 they are the most likely ones. The draws
// follow from the seed and the place of the problem: asked again, the same policy answers the same.
func (e *Evaluator) Sample(ctx context.Context, problems []data.Problem, n int, temperature float32) ([]Group, error) {
	a, err := e.attempt(ctx, problems, n, temperature)
	return a.Groups, err
}

// evaluationStep keys the draws of evaluations, which must not be those of training.
const evaluationStep = -1

// attempt gives scored completions of problems.
func (e *Evaluator) attempt(ctx context.Context, problems []data.Problem, n int, temperature float32) (a Attempt, err error) {
	given.All("grpo.Evaluator", "ctx", ctx)
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

// grading is rollouts on their way to their scores.
type grading = reward.Batch[Rollout]

// sample draws n completions of each prompt. What it gives has scores for them, or is getting them: each is
// scored as soon as it is there, with pipeline=off once all of them are.
func (e *Evaluator) sample(ctx context.Context, prompts []Prompt, step, n int, params sampler.Params) (*grading, error) {
	total := n * len(prompts)
	e.watcher.Phase("sample", total)
	g := reward.NewBatch[Rollout](ctx, e.judging.Grader, total, e.cfg.Pipeline == "off")
	sampling, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer g.Broken(stop)() // nobody samples what will not be scored
	err := e.drawn(sampling, prompts, step, n, params, g)
	if err == nil {
		g.Close()
		return g, nil
	}
	if gerr := g.Abandon(); gerr != nil {
		return nil, fmt.Errorf("score: %w", gerr) // which is what ended the sampling
	}
	return nil, fmt.Errorf("sample: %w", err)
}

// drawn draws into g: completions, which it has scored, or conversations, which were while they were drawn.
func (e *Evaluator) drawn(ctx context.Context, prompts []Prompt, step, n int, params sampler.Params, g *grading) error {
	requests, asks := make([]sampler.Request, len(prompts)), make([]conversation.Ask, len(prompts))
	for i := range prompts {
		p := &prompts[i]
		asks[i] = conversation.Ask{Problem: &p.Problem, Key: sampler.Key{Seed: e.cfg.Seed, Step: step, Problem: p.Index}}
		requests[i] = sampler.Request{Prompt: p.Tokens, N: n, Params: params, Key: asks[i].Key}
		requests[i].Params.MaxTokens = min(params.MaxTokens, max(e.policy.Shape.MaxPositions-len(p.Tokens), 1))
	}
	if e.room != nil {
		return e.room.Sample(ctx, e.sampling.engine, asks, n, params, func(d conversation.Drawn) {
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

// rollout is what the sampler drew, in words too.
func (e *Evaluator) rollout(group int, r sampler.Rollout, c *Conversation) Rollout {
	return Rollout{Group: group, Sample: r.Sample, Tokens: r.Tokens, LogProbs: r.LogProbs, Finish: r.Finish, Conversation: c,
		Text: e.policy.Tokenizer.Text(r.Tokens)}
}

// completion is a rollout as a grader sees it.
func completion(p *Prompt, r Rollout, maxTokens int, peers *reward.Peers) reward.Completion {
	return reward.Completion{Problem: &p.Problem, Text: r.Text, Truncated: r.Finish == sampler.Length,
		Tokens: len(r.Tokens), MaxTokens: maxTokens, Peers: peers, Place: r.Sample}
}

// wait waits for the scores that are missing yet.
func (e *Evaluator) wait(ctx context.Context, g *grading) ([]Scored, error) {
	if n := g.Missing(); n > 0 {
		e.watcher.Phase("score", n)
	}
	marked, err := g.Wait(ctx, func() { e.watcher.Advance(1, 0) })
	scored := make([]Scored, len(marked))
	for i, m := range marked {
		scored[i] = Scored{m.Item, m.Score}
		e.judging.Look(m.Score)
	}
	for _, w := range e.judging.Warnings() {
		e.watcher.Warn(w)
	}
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("score: %w", err)
	}
	return scored, err
}
