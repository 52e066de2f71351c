package grpo

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/given"
	"github.com/seed-7879b91d/grpo/internal/judging"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/rundir"
	"github.com/seed-7879b91d/grpo/internal/snapshot"
	"github.com/seed-7879b91d/grpo/internal/sources"
	"github.com/seed-7879b91d/grpo/internal/stats"
	"github.com/seed-7879b91d/grpo/kernels"
)

// Language is what a model is spoken to in.
type Language = sources.Language

// Saved is a checkpoint of a run. Nothing of the run is written by asking it.
type Saved struct {
	Dir      string
	Settings *configs.Config // that it was made with

	state   snapshot.State
	watcher Watcher
	run     *provenance.Run
	first   stats.Judged // what the first evaluation of the run found
}

// OpenSaved finds the last whole checkpoint of the run in dir, that of a step from 0 on, or dir itself. The watcher may be nil.
func OpenSaved(dir string, step int, w Watcher) (s *Saved, err error) {
	s = &Saved{watcher: watcherOrNobody(w)}
	if step >= 0 {
		if dir, err = provenance.Checkpoint(dir, step); err != nil {
			return nil, err
		}
	}
	if s.Settings, err = provenance.SettingsOf(dir); err != nil {
		return nil, err
	}
	o, err := namedOrigin("run", dir, s.watcher)
	if err != nil {
		return nil, err
	}
	s.Dir, s.state, s.Settings.RunDir = o.checkpoint, o.state, rundir.RunOf(dir)
	if s.run, err = provenance.Read(s.Settings.RunDir); err == nil {
		s.first, err = s.run.First(s.state.Step)
	}
	return s, err
}

// SavedSteps are the steps of the checkpoints that a run has, the first one first.
func SavedSteps(dir string) (steps []int, err error) { return rundir.Steps(dir) }

// Step is how many steps the policy has behind it.
func (s *Saved) Step() int { return s.state.Step }

// Trained is the directory of the adapter, or with train=full of the model.
func (s *Saved) Trained() string {
	return filepath.Join(s.Dir, provenance.TrainedDir(s.Settings.Train == "full"))
}

// Language opens what the model was spoken to in, as the run did.
func (s *Saved) Language(ctx context.Context) (*Language, error) {
	cfg := *s.Settings
	cfg.Adapter = "" // which the checkpoint takes the place of, and which need not be there any more
	p, err := openLanguage(ctx, &cfg)
	if err == nil {
		err = provenance.CheckBase(s.Trained(), p.Dir)
	}
	if err == nil {
		asked := provenance.Asked{Config: s.Settings, Run: s.Settings, Model: p.print, Problems: &sources.Problems{}}
		_, err = asked.Compare(s.state.Parts, s.watcher.Warn)
	}
	return p.Language, err
}

// Evaluator opens an evaluator of the checkpoint with its settings, as far as change leaves them; it may be nil.
func (s *Saved) Evaluator(ctx context.Context, b kernels.Backend, change func(*configs.Config) error, o ...Option) (*Evaluator, error) {
	given.All("grpo.Saved.Evaluator", "ctx", ctx, "b", b)
	cfg := *s.Settings
	s.state.Pilot.Judges(&cfg)
	if err := provenance.CheckAsks(&cfg, s.Trained()); err != nil {
		return nil, err
	}
	var err error
	if cfg.Order, err = kernels.Keep(b, cfg.Order); err != nil {
		return nil, badinput.Errorf("run %s: order: %w", cfg.RunDir, err)
	}
	if change != nil {
		if err := cmp.Or(change(&cfg), cfg.Validate()); err != nil {
			return nil, err
		}
	}
	cfg.Adapter = map[bool]string{true: s.Trained()}[cfg.Train != "full"] // in place of the one that the run began with, if any
	e := &Evaluator{cfg: &cfg, watcher: s.watcher, step: s.state.Step, trained: s.Trained()}
	if cfg.TestData == s.Settings.TestData && (cfg.TestSplit == s.Settings.TestSplit || cfg.TestData == sources.Embedded) {
		e.leftOut, e.before = s.run.Manifest.LeftOut, s.first
	}
	own := collect(o)
	if s.run.OtherJudge(0, own.names()) != "" {
		e.before = stats.Judged{} // nothing that this judge could be compared with
	}
	if what := s.run.OtherJudge(s.state.Step, own.names()); what != "" {
		s.watcher.Warn("judged by something else than the run was, so these are not the run's figures: " + what)
	}
	if err = e.open(ctx, b, own); err == nil {
		asked := provenance.Asked{Config: &cfg, Run: s.Settings, Model: e.policy.print, Problems: e.problems,
			Judged: e.judging.Sandbox.Kind != judging.Own, Converses: true}
		var same bool
		if same, err = asked.Compare(s.state.Parts, s.watcher.Warn); !same {
			e.before = stats.Judged{} // which is of other problems by the same names
		}
	}
	if err == nil && e.policy.full {
		err = e.policy.Restore(s.Trained())
	}
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// OpenRun is OpenSaved of the last checkpoint of a run, or of the one that dir names, and its Evaluator.
func OpenRun(ctx context.Context, dir string, b kernels.Backend, w Watcher, change func(*configs.Config) error,
	options ...Option) (*Evaluator, error) {
	given.All("grpo.OpenRun", "ctx", ctx, "b", b)
	s, err := OpenSaved(dir, -1, w)
	if err != nil {
		return nil, err
	}
	return s.Evaluator(ctx, b, change, options...)
}
