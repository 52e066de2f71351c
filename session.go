package grpo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/reward"
)

// Session is a trainer with everything that it needs, opened from a configuration.
type Session struct {
	*Trainer
	Config *configs.Config
	Judge  *reward.Judge

	backend kernels.Backend
	baseDir string // of the model
	sets    []openedSet
	began   string
	closers []io.Closer
}

// Init opens the model, the data, the sandbox and the sampler that a configuration names, on a
// backend that the caller closes after Finish. Nothing is trained or recorded yet. The watcher may be
// nil.
func Init(ctx context.Context, cfg *configs.Config, b kernels.Backend, w Watcher) (_ *Session, err error) {
	if w == nil {
		w = nobody{}
	}
	s := &Session{Config: cfg, backend: b, Trainer: &Trainer{}}
	s.Watcher = w
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Finish())
		}
	}()
	if err := s.settle(); err != nil {
		return nil, err
	}
	for _, open := range []func(context.Context) error{s.openModel, s.openText, s.openProblems, s.setRules, s.nameBase, s.openSampler, s.openJudge} {
		if err := open(ctx); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// StepOptions are what one call of TrainStep does differently; the zero value changes nothing.
type StepOptions struct {
	NumIterations int // updates on the same completions; 0: as configured
}

// TrainStep is one step on a subset of problems, or on the next of the pool where it is nil. The learning
// rate follows the steps taken so far: its warm-up is over once, however many calls there are, and a
// session that resumed goes on where it was.
func (s *Session) TrainStep(ctx context.Context, subset []data.Problem, o StepOptions) (Metrics, error) {
	m, timing, err := s.stepOn(ctx, subset, cmp.Or(o.NumIterations, s.Iterations))
	if err != nil {
		return m, fmt.Errorf("step %d: %w", m.Step, err)
	}
	return m, s.conclude(m, timing)
}

// Sample draws n completions of each problem from the policy as it is, and scores them, with the truncation
// that evaluation has (eval_top_p and the like). At temperature 0 they are the most likely ones. The draws
// follow from the seed and the place of the problem: asked again, the same policy answers the same.
func (s *Session) Sample(ctx context.Context, problems []data.Problem, n int, temperature float32) ([]*Group, error) {
	a, err := s.attempt(ctx, problems, n, temperature)
	return a.Groups, err
}

// Save writes a checkpoint of the last step into the run directory and says where.
func (s *Session) Save() (dir string, err error) {
	if s.record == nil {
		return "", fmt.Errorf("grpo: Save without Begin: there is no run directory yet")
	}
	return s.checkpointDir(), s.save()
}

// Finish gives back what Init opened, but for the backend.
func (s *Session) Finish() error {
	var errs []error
	if s.ahead != nil {
		errs = append(errs, s.ahead.scores.abandon())
		s.ahead = nil
	}
	for _, c := range slices.Backward(s.closers) {
		errs = append(errs, c.Close())
	}
	s.closers = nil
	return errors.Join(errs...)
}

// Plan says in a few lines what the run will do and hold.
func (s *Session) Plan() []string {
	cfg := s.Config
	steps := "until it is stopped"
	if cfg.MaxSteps >= 0 {
		steps = fmt.Sprintf("%d steps", cfg.MaxSteps)
	}
	left := ""
	if s.dropped != (data.Dropped{}) {
		left = "; filters: " + s.dropped.String()
	}
	trained := fmt.Sprintf("LoRA rank %d, %.2f M trained", cfg.LoRARank, float64(s.Policy.TrainableCount())/1e6)
	if s.Full {
		trained = "all of them trained"
	}
	return []string{
		fmt.Sprintf("model: %s, %.1f M weights in %.2f GB; %s", cfg.Model, float64(s.Policy.WeightCount())/1e6, float64(s.Policy.WeightBytes())/1e9, trained),
		fmt.Sprintf("data: %d problems to train on, %d held out; prompts of up to %d tokens%s", s.Problems.Len(), len(s.HeldOut), s.longestPrompt, left),
		fmt.Sprintf("step: %d prompts × %d completions of up to %d tokens, %s", cfg.PromptsPerStep, cfg.CompletionsPerPrompt, cfg.MaxTokens, steps),
		fmt.Sprintf("training: %.2f GB for batches of %d tokens and sequences of up to %d", float64(s.activations)/1e9, s.Policy.MaxRows, s.longestPrompt+cfg.MaxTokens),
		s.Engine.Plan.String(),
		fmt.Sprintf("sandbox: %s", s.Judge.Backend()),
	}
}

// FirstPrompt is the text that the model would be asked first.
func (s *Session) FirstPrompt() (string, error) {
	cursor := s.Problems.Cursor()
	first := s.Problems.Take(1)
	if _, err := s.Problems.Restore(cursor); err != nil {
		return "", err
	}
	messages, err := s.Wording.Messages(&first[0])
	if err != nil {
		return "", err
	}
	_, text, err := s.Renderer.Prompt(messages)
	return text, err
}
