package grpo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/autopilot"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/learning"
	"github.com/seed-7879b91d/grpo/internal/precondition"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/recipe"
	"github.com/seed-7879b91d/grpo/internal/rollouts"
	"github.com/seed-7879b91d/grpo/internal/snapshot"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
)

// Replayed is the policy after a recorded step.
type Replayed struct {
	policy *policy
}

// Save writes what was trained to dir: an adapter, or a model.
func (r *Replayed) Save(dir string) error { return r.policy.Save(dir, r.policy.Base) }

// Replay repeats the training of a run up to a recorded step: it starts at the last checkpoint before the step and takes
// every update in between with the settings of its time, from the recorded completions, rewards and advantages. It fails
// where a policy differs from the recorded one by a bit. done is called after each step. The caller closes the backend.
// A run that was trained with WithLoss needs the same loss here.
func Replay(ctx context.Context, run string, step int, b kernels.Backend, done func(Metrics), options ...Option) (*Replayed, error) {
	precondition.NotNil("grpo.Replay", "ctx", ctx, "b", b)
	r := &replay{backend: b, own: collect(options), dir: run}
	recorded, err := r.read(step)
	if err != nil {
		return nil, err
	}
	from, checkpoint, err := snapshot.LastBefore(run, step, r.past.Manifest.Origin)
	if err != nil {
		return nil, err
	}
	kept, err := rollouts.Read(run, from+1, step)
	if err != nil {
		return nil, err
	}
	for n := from + 1; n <= step; n++ {
		if cfg, _, err := r.past.At(n); recorded[n].Datums > 0 && kept.Groups[n] == nil {
			return nil, cmp.Or(err, kept.MissingError(n, cfg))
		}
	}
	if err := r.open(ctx, from+1, checkpoint != ""); err != nil {
		return nil, err
	}
	if checkpoint != "" {
		if err := restore(checkpoint, r.policy, r.learner.Adam); err != nil {
			return nil, err
		}
	}
	for n := from + 1; n <= step; n++ {
		if err := r.reopenIfChanged(ctx, n); err != nil {
			return nil, err
		}
		r.setTemperature(n, recorded[n])
		again, err := repeatStep(ctx, r.learner, recordedGroups(kept.Groups[n]), recorded[n])
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", n, err)
		}
		if done != nil {
			done(again)
		}
	}
	return &Replayed{r.policy}, nil
}

// replay is the state of a Replay.
type replay struct {
	backend kernels.Backend
	own     custom
	dir     string
	past    *provenance.Run
	start   provenance.Start // the start of the run whose settings policy and learner were opened with
	policy  *policy
	learner *learning.Learner
}

// read reads the provenance of the run and the metrics of its steps.
func (r *replay) read(step int) (recorded map[int]Metrics, err error) {
	if r.past, err = provenance.Recorded(r.dir, metricsFile); err != nil {
		return nil, err
	}
	metrics, err := jsonl.OfKind[Metrics](filepath.Join(r.dir, metricsFile), "")
	if err != nil {
		return nil, err
	}
	recorded, first, last := map[int]Metrics{}, 0, 0
	for _, m := range metrics {
		recorded[m.Step], first, last = m, min(m.Step, cmp.Or(first, m.Step)), max(last, m.Step)
	}
	if recorded[step].Step != step || step < 1 {
		return nil, badinput.Errorf("run %s: step %d is not recorded; its metrics are of steps %d to %d", r.dir, step, first, last)
	}
	return recorded, nil
}

// loss is the caller's loss if this start of the run was trained with one, else nil.
func (r *replay) loss(start provenance.Start) (model.LossFunc, error) {
	own, known := r.past.Own(start)
	if !known {
		own = r.past.Manifest.Own
	}
	switch had := slices.Contains(own, provenance.OwnLoss); {
	case had && r.own.loss == nil:
		return nil, badinput.Errorf("run %s was trained with a loss of the program that trained it: replay it there, with WithLoss", r.dir)
	case known && !had:
		return nil, nil
	}
	return r.own.loss, nil
}

// open opens policy and learner as a step had them, and refuses another model or backend. With restored, the caller loads the
// trained weights afterwards.
func (r *replay) open(ctx context.Context, step int, restored bool) error {
	cfg, start, err := r.past.At(step)
	if err != nil {
		return err
	}
	if restored {
		cfg.Adapter = "" // it is overwritten, and its files may be gone
	}
	if _, err := kernels.Keep(r.backend, cfg.Order); err != nil {
		return badinput.Errorf("run %s: order: %w", r.dir, err)
	}
	if start.Order != "" && start.Order != r.backend.Order() {
		return badinput.Errorf("step %d of run %s was trained on a backend that adds sums in another order (%s; on %s it is %s): "+
			"its bits cannot be reproduced here; replay it on the device that trained it%s", step, r.dir, start.Order, r.backend.Name(),
			r.backend.Order(), provenance.Rounding(r.backend.Order(), start.Order))
	}
	r.start = start
	loss, err := r.loss(start)
	if err != nil {
		return err
	}
	if r.policy, err = openPolicy(ctx, cfg, r.backend); err != nil {
		return err
	}
	if what := (provenance.Parts{"model": r.policy.print}).Differences(start.Parts)["model"]; what != "" {
		return badinput.Errorf("step %d of run %s was trained with other files: %s; bring them back", step, r.dir, what)
	}
	r.learner, err = learning.Open(cfg, r.backend, r.policy.Policy, recipe.Overrides{Loss: loss})
	return err
}

// reopenIfChanged reopens policy and learner if the run was resumed with other settings at this step, and carries weights and moments over.
func (r *replay) reopenIfChanged(ctx context.Context, step int) (err error) {
	_, start, err := r.past.At(step)
	if err != nil || start.Equal(r.start) {
		return err
	}
	const remedy = "step %d began with other settings, and changing them takes a temporary file: %w; set TMPDIR to a folder with room for it"
	dir, err := os.MkdirTemp("", "grpo-replay-")
	if err != nil {
		return fmt.Errorf(remedy, step, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	err = r.policy.Save(filepath.Join(dir, provenance.TrainedDir(r.policy.full)), r.policy.Base)
	if err = cmp.Or(err, r.learner.Adam.SaveState(filepath.Join(dir, momentsFile))); err != nil {
		return fmt.Errorf(remedy, step, err)
	}
	r.policy, r.learner = nil, nil // free them before the next ones are opened
	if err := r.open(ctx, step, true); err != nil {
		return err
	}
	return restore(dir, r.policy, r.learner.Adam)
}

// setTemperature sets the temperature that a step had. Other settings of the autopilot show in recorded values, such as the learning rate.
func (r *replay) setTemperature(step int, m Metrics) {
	if cfg, _, err := r.past.At(step); err == nil {
		t, other := m.Autopilot[autopilot.Temperature]
		if !other {
			t = cfg.Temperature
		}
		r.learner.Recipe.Objective.Temperature = float32(t)
	}
}

// repeatStep takes a step with recorded completions, and compares the policy before and after with the recorded hashes.
func repeatStep(ctx context.Context, l *learning.Learner, groups []Group, recorded Metrics) (m Metrics, err error) {
	m = Metrics{Step: recorded.Step, Provenance: recorded.Provenance}
	compare := func(when, want string) error {
		got, err := l.Policy.Hash()
		if err == nil && got != want {
			err = fmt.Errorf("the policy %s has SHA-256 %s, the run recorded %s: settings, model or program differ from the run's", when, got, want)
		}
		return err
	}
	if m.Staleness == 0 {
		if err := compare("before", recorded.Policy); err != nil {
			return m, err
		}
	}
	for i := range groups {
		groups[i].positiveOnly = l.Recipe.PositiveOnly
	}
	datums := datums(groups)
	if m.Datums = len(datums); m.Datums != recorded.Datums {
		return m, badinput.Errorf("the record has %d completions to train on, the metrics say %d", len(datums), recorded.Datums)
	}
	m.Update, err = l.Update(ctx, datums, recorded.Iterations, recorded.LearningRate, m.Staleness > 0)
	if err != nil {
		return m, err
	}
	return m, compare("after", recorded.Trained)
}

// recordedGroups rebuilds the groups of a step from their record.
func recordedGroups(lines [][]rollouts.Line) []Group {
	groups := make([]Group, len(lines))
	for i, samples := range lines {
		g := &groups[i]
		g.Prompt = Prompt{Index: i, Tokens: samples[0].Prompt}
		for _, l := range samples {
			rollout := Rollout{Group: i, Sample: l.Sample, Tokens: l.Tokens, LogProbs: l.LogProbs, Finish: l.Finish, Text: l.Text,
				Conversation: l.Conversation}
			g.Rollouts, g.Advantages = append(g.Rollouts, Scored{rollout, l.Score}), append(g.Advantages, l.Advantage)
			g.tokens = append(g.tokens, l.Advantages)
		}
	}
	return groups
}
