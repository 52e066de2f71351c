package grpo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/dataset"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/tiny"
)

// problems are what a run trains and evaluates on.
type problems struct {
	train   []data.Problem // none for an evaluation alone
	heldOut []data.Problem
	dropped data.Dropped // by the filters, of those to train on
	sets    []openedSet
}

// problemOpener opens the problems that a configuration names; a data set that was opened is among those it
// gives even with an error.
type problemOpener func(ctx context.Context, cfg *configs.Config, w Watcher) (*problems, error)

// openHeldOut opens the problems to evaluate on, and no others.
func openHeldOut(ctx context.Context, cfg *configs.Config, _ Watcher) (*problems, error) {
	p := &problems{}
	held, err := p.read(ctx, cfg, "test", cfg.TestData, cfg.TestSplit, "")
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	tolerate(cfg, held)
	p.holdOut(cfg, held)
	return p, nil
}

// openProblems opens the problems to train on and those that are held out.
func openProblems(ctx context.Context, cfg *configs.Config, w Watcher) (*problems, error) {
	p := &problems{}
	if err := p.open(ctx, cfg, w); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *problems) open(ctx context.Context, cfg *configs.Config, w Watcher) error {
	train, err := p.read(ctx, cfg, "train", cfg.Data, cfg.DataSplit, cfg.ExpectedDatasetHash)
	if err != nil {
		return err
	}
	held, err := p.read(ctx, cfg, "test", cfg.TestData, cfg.TestSplit, "")
	if err != nil {
		return err
	}
	filter := data.Filter{MinTests: cfg.MinProblemTests, MaxTests: cfg.MaxProblemTests, MinPromptChars: cfg.MinPromptChars,
		MaxPromptChars: cfg.MaxPromptChars, TruncatePrompts: cfg.TruncatePrompts, Sources: cfg.DataSources}
	if p.train, p.dropped, err = filter.Apply(train); err != nil {
		return err
	}
	tolerate(cfg, p.train)
	tolerate(cfg, held)
	both := p.holdOut(cfg, held)
	if both > 0 && len(p.heldOut) == 0 {
		return badinput.Errorf("test_data: all its problems are among those to train on; give others, or type test_data= eval_every=-1")
	}
	if both > 0 {
		w.Warn(fmt.Sprintf("%d problems of test_data are among those to train on, and are not evaluated", both))
	}
	return nil
}

// holdOut takes the problems to evaluate on, the first eval_problems that are not trained on, and says how many
// are.
func (p *problems) holdOut(cfg *configs.Config, held []data.Problem) (both int) {
	trained := make(map[string]bool, len(p.train))
	for i := range p.train {
		trained[p.train[i].ID] = true
	}
	for _, problem := range held {
		switch n := cfg.EvalProblems; {
		case trained[problem.ID]:
			both++
		case n == 0 || len(p.heldOut) < n:
			p.heldOut = append(p.heldOut, problem)
		}
	}
	return both
}

// tolerate lets numbers differ by the tolerance of the settings, for problems that say nothing themselves.
func tolerate(cfg *configs.Config, problems []data.Problem) {
	if cfg.Comparator != "tolerant" {
		return
	}
	for i := range problems {
		if problems[i].Tolerance == 0 {
			problems[i].Tolerance = cfg.Tolerance
		}
	}
}

// openedSet is a data set that the run reads.
type openedSet struct {
	*dataset.Set
	copy string // where the run keeps its own, with cache_dataset
}

// read gives the problems of a source: the embedded ones, those of the run's own copy where it keeps one, else
// those of the data set that the source names.
func (p *problems) read(ctx context.Context, cfg *configs.Config, name, source, split, hash string) ([]data.Problem, error) {
	switch source {
	case "":
		return nil, nil
	case embedded:
		train, held, err := tiny.Problems()
		if name == "test" {
			return held, err
		}
		return train, err
	}
	o := openedSet{}
	var err error
	if cfg.CacheDataset {
		o.copy = filepath.Join(cfg.RunDir, "data", name)
	}
	if _, statErr := os.Stat(o.copy); o.copy != "" && statErr == nil {
		o.Set, err = dataset.OpenStore(o.copy)
	} else {
		_, statErr := os.Stat(source)
		o.Set, err = dataset.Open(ctx, source, dataset.Options{Split: split, Strict: statErr == nil})
	}
	if err != nil {
		return nil, err
	}
	p.sets = append(p.sets, o)
	if m := o.Manifest(); hash != "" {
		if err := m.CheckHash(hash); err != nil {
			return nil, err
		}
	}
	return o.Problems(), nil
}

// keep gives the run its own copies of the data, where it keeps them.
func (p *problems) keep(ctx context.Context) error {
	for _, o := range p.sets {
		if o.copy == "" {
			continue
		}
		if err := o.CopyTo(ctx, o.copy); err != nil {
			return fmt.Errorf("cache_dataset: %w", err)
		}
	}
	return nil
}

// Close closes the data sets.
func (p *problems) Close() error {
	var errs []error
	for _, o := range p.sets {
		errs = append(errs, o.Close())
	}
	return errors.Join(errs...)
}
