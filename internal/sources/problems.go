package sources

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

// Problems are what a run trains and evaluates on.
type Problems struct {
	Train   []data.Problem // none for an evaluation alone
	HeldOut []data.Problem
	Dropped data.Dropped // by the filters, of those to train on
	Sets    []Set
}

// An Opener opens the problems that a configuration names; a data set that was opened is among those it
// gives even with an error.
type Opener func(ctx context.Context, cfg *configs.Config, warn func(string)) (*Problems, error)

// OpenHeldOut opens the problems to evaluate on, and no others.
func OpenHeldOut(ctx context.Context, cfg *configs.Config, _ func(string)) (*Problems, error) {
	p := &Problems{}
	held, err := p.read(ctx, cfg, "test", cfg.TestData, cfg.TestSplit, "")
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	tolerate(cfg, held)
	p.holdOut(cfg, held)
	return p, nil
}

// OpenAll opens the problems to train on and those that are held out.
func OpenAll(ctx context.Context, cfg *configs.Config, warn func(string)) (*Problems, error) {
	p := &Problems{}
	if err := p.open(ctx, cfg, warn); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *Problems) open(ctx context.Context, cfg *configs.Config, warn func(string)) error {
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
	if p.Train, p.Dropped, err = filter.Apply(train); err != nil {
		return err
	}
	tolerate(cfg, p.Train)
	tolerate(cfg, held)
	both := p.holdOut(cfg, held)
	if both > 0 && len(p.HeldOut) == 0 {
		return badinput.Errorf("test_data: all its problems are among those to train on; give others, or type test_data= eval_every=-1")
	}
	if both > 0 {
		warn(fmt.Sprintf("%d problems of test_data are among those to train on, and are not evaluated", both))
	}
	return nil
}

// holdOut takes the problems to evaluate on, the first eval_problems that are not trained on, and says how many
// are.
func (p *Problems) holdOut(cfg *configs.Config, held []data.Problem) (both int) {
	trained := make(map[string]bool, len(p.Train))
	for i := range p.Train {
		trained[p.Train[i].ID] = true
	}
	for _, problem := range held {
		switch n := cfg.EvalProblems; {
		case trained[problem.ID]:
			both++
		case n == 0 || len(p.HeldOut) < n:
			p.HeldOut = append(p.HeldOut, problem)
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

// Set is a data set that the run reads.
type Set struct {
	*dataset.Set
	Key  string // the setting that names it: data or test_data
	copy string // where the run keeps its own, with cache_dataset
}

// read gives the problems of a source: the embedded ones, those of the run's own copy where it keeps one, else
// those of the data set that the source names.
func (p *Problems) read(ctx context.Context, cfg *configs.Config, name, source, split, hash string) ([]data.Problem, error) {
	switch source {
	case "":
		return nil, nil
	case Embedded:
		train, held, err := tiny.Problems()
		if name == "test" {
			return held, err
		}
		return train, err
	}
	o := Set{Key: "data"}
	if name == "test" {
		o.Key = "test_data"
	}
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
	p.Sets = append(p.Sets, o)
	if m := o.Manifest(); hash != "" {
		if err := m.CheckHash(hash); err != nil {
			return nil, err
		}
	}
	return o.Problems(), nil
}

// Keep gives the run its own copies of the data, where it keeps them.
func (p *Problems) Keep(ctx context.Context) error {
	for _, o := range p.Sets {
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
func (p *Problems) Close() error {
	var errs []error
	for _, o := range p.Sets {
		errs = append(errs, o.Close())
	}
	return errors.Join(errs...)
}
