package grpo

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/judging"
	"github.com/seed-7879b91d/grpo/internal/precondition"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/rundir"
	"github.com/seed-7879b91d/grpo/internal/snapshot"
	"github.com/seed-7879b91d/grpo/internal/sources"
	"github.com/seed-7879b91d/grpo/internal/stats"
	"github.com/seed-7879b91d/grpo/kernels"
)

// Language is the tokenizer, chat template and prompt wording of a model.
type Language = sources.Language

// Saved is a checkpoint of a run, opened read-only.
type Saved struct {
	Dir      string
	Settings *configs.Config // of the run when it was saved

	state   snapshot.State
	watcher Watcher
	run     *provenance.Run
	first   stats.Judged // the run's first evaluation
}

// OpenSaved opens a checkpoint: dir is the checkpoint itself, or a run of which it takes the checkpoint of step, or with a negative
// step the last whole one. The watcher may be nil.
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

// SavedSteps lists the steps of which a run has checkpoints, in ascending order.
func SavedSteps(dir string) (steps []int, err error) { return rundir.Steps(dir) }

// Step is the number of steps that the policy was trained for.
func (s *Saved) Step() int { return s.state.Step }

// Trained is the directory of the adapter, or with train=full of the model.
func (s *Saved) Trained() string {
	return filepath.Join(s.Dir, provenance.TrainedDir(s.Settings.Train == "full"))
}

// Language opens tokenizer, chat template and prompt wording as the run used them.
func (s *Saved) Language(ctx context.Context) (*Language, error) {
	cfg := *s.Settings
	cfg.Adapter = "" // the checkpoint has its own, and the files of this one may be gone
	p, err := openLanguage(ctx, &cfg)
	if err == nil {
		err = provenance.CheckBase(s.Trained(), p.Dir)
	}
	if err == nil {
		asked := provenance.EvaluationInputs{Config: s.Settings, Run: s.Settings, Model: p.print, Problems: &sources.Problems{}}
		_, err = asked.Compare(s.state.Parts, s.watcher.Warn)
	}
	return p.Language, err
}

// Evaluator opens an evaluator of the checkpoint, with the run's settings after change, which may be nil, has modified them.
func (s *Saved) Evaluator(ctx context.Context, b kernels.Backend, change func(*configs.Config) error, o ...Option) (*Evaluator, error) {
	precondition.NotNil("grpo.Saved.Evaluator", "ctx", ctx, "b", b)
	cfg := *s.Settings
	s.state.Pilot.RestoreFormatWeight(&cfg)
	if err := provenance.CheckEvaluable(&cfg, s.Trained()); err != nil {
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
	e := &Evaluator{cfg: &cfg, watcher: s.watcher, step: s.state.Step, trainedDir: s.Trained()}
	if cfg.TestData == s.Settings.TestData && (cfg.TestSplit == s.Settings.TestSplit || cfg.TestData == sources.Embedded) {
		e.leftOut, e.baseline = s.run.Manifest.LeftOut, s.first
	}
	own := collect(o)
	if s.run.OtherJudge(0, own.names()) != "" {
		e.baseline = stats.Judged{} // nothing that this judge could be compared with
	}
	if what := s.run.OtherJudge(s.state.Step, own.names()); what != "" {
		s.watcher.Warn("judged differently than in the run, so these numbers do not compare with the run's: " + what)
	}
	if err = e.open(ctx, b, own); err == nil {
		asked := provenance.EvaluationInputs{Config: &cfg, Run: s.Settings, Model: e.policy.print, Problems: e.problems,
			Judged: e.judging.Sandbox.Kind != judging.CallerGrader, MultiTurn: true}
		var same bool
		if same, err = asked.Compare(s.state.Parts, s.watcher.Warn); !same {
			e.baseline = stats.Judged{} // other problems under the same names: not comparable
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

// OpenRun opens an Evaluator of the last checkpoint of the run in dir, or of dir if that is a checkpoint: OpenSaved, then Evaluator.
func OpenRun(ctx context.Context, dir string, b kernels.Backend, w Watcher, change func(*configs.Config) error,
	options ...Option) (*Evaluator, error) {
	precondition.NotNil("grpo.OpenRun", "ctx", ctx, "b", b)
	s, err := OpenSaved(dir, -1, w)
	if err != nil {
		return nil, err
	}
	return s.Evaluator(ctx, b, change, options...)
}
