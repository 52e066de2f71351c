package sources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/dataset"
	"github.com/seed-7879b91d/grpo/data/match"
	"github.com/seed-7879b91d/grpo/data/overlap"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/plural"
	"github.com/seed-7879b91d/grpo/internal/tiny"
)

// Problems are the problems of a run.
type Problems struct {
	Train   []data.Problem // empty if only evaluating
	HeldOut []data.Problem
	Dropped data.Dropped // by filters, of the training problems
	Near    int          // held-out problems that are nearly equal to a training problem
	Both    []string     // IDs of test_data problems that are left out, as they are training problems too
	// When only evaluating: held-out problems that were left out, as they leave no room for a completion in the model's
	// positions, and others without room for max_tokens.
	NoRoom, LessRoom int
	Sets             []Set
}

// Statement is the text of a training problem, by its ID; "" if there is none.
func (p *Problems) Statement(id string) string {
	if problem := p.Find(id); problem != nil {
		return problem.Statement
	}
	return ""
}

// Find returns a training problem by its ID; nil if there is none.
func (p *Problems) Find(id string) *data.Problem {
	if i := slices.IndexFunc(p.Train, func(problem data.Problem) bool { return problem.ID == id }); i >= 0 {
		return &p.Train[i]
	}
	return nil
}

// OpenHeldOut opens only the problems to evaluate on, without those whose IDs are in left. It warns about those that have
// no room in the model's positions.
func OpenHeldOut(ctx context.Context, cfg *configs.Config, left []string, l *Language, warn func(string)) (*Problems, error) {
	p := &Problems{}
	held, err := p.read(ctx, cfg, "test", cfg.TestData, cfg.TestSplit, "", warn)
	if err == nil {
		held = slices.DeleteFunc(slices.Clone(held), func(p data.Problem) bool { return slices.Contains(left, p.ID) })
		held = held[:limitTo(cfg.EvalProblems, len(held))]
		err = p.makeRoom(ctx, cfg, held, l, warn)
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	setTolerance(cfg, p.HeldOut)
	return p, nil
}

// makeRoom keeps the held-out problems that leave room for a completion.
func (p *Problems) makeRoom(ctx context.Context, cfg *configs.Config, held []data.Problem, l *Language, warn func(string)) error {
	most := l.Shape.MaxPositions
	for _, problem := range held {
		tokens, _, err := l.Prompt(ctx, &problem)
		if err != nil {
			return err
		}
		if len(tokens) >= most {
			p.NoRoom++
			continue
		}
		if len(tokens)+cfg.MaxTokens > most {
			p.LessRoom++
		}
		p.HeldOut = append(p.HeldOut, problem)
	}
	if p.NoRoom > 0 {
		warn(fmt.Sprintf("%s of %d %s left out: %s alone fill the model's %d positions", plural.Of(p.NoRoom, "problem"), len(held),
			plural.Pick(p.NoRoom, "is", "are"), plural.Pick(p.NoRoom, "the tokens of its prompt", "their prompts"), most))
	}
	if p.LessRoom > 0 {
		warn(fmt.Sprintf("%s of %d %s room for fewer than max_tokens=%d tokens in the model's %d positions: their completions are cut off there",
			plural.Of(p.LessRoom, "problem"), len(held), plural.Pick(p.LessRoom, "leaves", "leave"), cfg.MaxTokens, most))
	}
	if len(held) > 0 && len(p.HeldOut) == 0 {
		return badinput.Errorf("test_data: none of its problems (%d) leaves room for a completion in the model's %d positions", len(held), most)
	}
	return nil
}

// OpenAll opens the training and the held-out problems.
func OpenAll(ctx context.Context, cfg *configs.Config, warn func(string)) (*Problems, error) {
	p := &Problems{}
	if err := p.open(ctx, cfg, warn); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *Problems) open(ctx context.Context, cfg *configs.Config, warn func(string)) error {
	train, err := p.read(ctx, cfg, "train", cfg.Data, cfg.DataSplit, cfg.ExpectedDatasetHash, warn)
	if err != nil {
		return MissingFile(cfg, "data", err)
	}
	held, err := p.read(ctx, cfg, "test", cfg.TestData, cfg.TestSplit, "", warn)
	if err != nil {
		return MissingFile(cfg, "test_data", err)
	}
	filter := data.Filter{MinTests: cfg.MinProblemTests, MaxTests: cfg.MaxProblemTests, MinPromptChars: cfg.MinPromptChars,
		MaxPromptChars: cfg.MaxPromptChars, TruncatePrompts: cfg.TruncatePrompts, Sources: cfg.DataSources}
	if p.Train, p.Dropped, err = filter.Apply(train); err != nil {
		return err
	}
	setTolerance(cfg, p.Train)
	setTolerance(cfg, held)
	if err := p.holdOut(cfg, originals(train, p.Train), held, warn); err != nil {
		return err
	}
	if cfg.EvalEvery <= 0 {
		return nil
	}
	return configs.CheckEvaluated(len(p.HeldOut), cfg.EvalSamples, "eval_samples=", "eval_problems")
}

// originals are the problems that passed a filter, in their original form, as the filter may have shortened them.
func originals(all, passed []data.Problem) []data.Problem {
	in := make(map[string]bool, len(passed))
	for i := range passed {
		in[passed[i].ID] = true
	}
	return slices.DeleteFunc(slices.Clone(all), func(p data.Problem) bool { return !in[p.ID] })
}

// holdOut chooses the held-out problems: the first eval_problems that are not trained on, whatever their IDs. It warns
// about those that nearly are.
func (p *Problems) holdOut(cfg *configs.Config, trained, held []data.Problem, warn func(string)) error {
	if len(held) == 0 {
		return nil
	}
	found := overlap.Find(trained, held)
	sameAs, nearTo := "", ""
	for i, problem := range held {
		switch near := found.Near[i]; {
		case found.Same[i] >= 0:
			if p.Both = append(p.Both, problem.ID); len(p.Both) == 1 {
				sameAs = fmt.Sprintf("%s is %s there", problem.ID, trained[found.Same[i]].ID)
			}
			continue
		case cfg.EvalProblems > 0 && len(p.HeldOut) == cfg.EvalProblems:
			continue
		case near >= 0:
			if p.Near++; p.Near == 1 {
				nearTo = fmt.Sprintf("%s is %.0f %% of %s", problem.ID, 100*found.Like[i], trained[near].ID)
			}
		}
		p.HeldOut = append(p.HeldOut, problem)
	}
	both := len(p.Both)
	if both > 0 && len(p.HeldOut) == 0 {
		return badinput.Errorf("test_data: all its problems are among those to train on (%s); "+
			"give others, or type test_data= eval_every=-1", sameAs)
	}
	if both > 0 {
		warn(fmt.Sprintf("%s of test_data %s also in data (%s), and %[2]s not evaluated", plural.Of(both, "problem"),
			plural.Pick(both, "is", "are"), sameAs))
	}
	if p.Near > 0 {
		warn(fmt.Sprintf("%s nearly equal to a training problem (%s): their results may be memorised",
			plural.Of(p.Near, "held-out problem")+plural.Pick(p.Near, " is", " are"), nearTo))
	}
	return nil
}

// limitTo limits n to all; 0 means all.
func limitTo(n, all int) int {
	if n == 0 {
		return all
	}
	return min(n, all)
}

// setTolerance sets the numeric tolerance of problems that have none, by the settings.
func setTolerance(cfg *configs.Config, problems []data.Problem) {
	if cfg.Comparator != "tolerant" {
		return
	}
	for i := range problems {
		if problems[i].Tolerance == 0 {
			problems[i].Tolerance = cfg.Tolerance
		}
	}
}

// Set is a data set of the run.
type Set struct {
	*dataset.Set
	Key  string // its setting: data or test_data
	copy string // the run's own copy, with cache_dataset
}

// read reads the problems of a source: the embedded ones, the run's own copy if it keeps one (unless it may change its data), or else
// the data set that the source names.
func (p *Problems) read(ctx context.Context, cfg *configs.Config, name, source, split, hash string,
	warn func(string)) ([]data.Problem, error) {
	o, makes := Set{Key: "data"}, []string{"data", "data_split", "answer_match"} // settings that affect the copy
	if name == "test" {
		o.Key, makes = "test_data", []string{"test_data", "test_split", "answer_match"}
	}
	switch source {
	case "":
		return nil, nil
	case Embedded:
		if err := dataset.CheckSplit(split); err != nil {
			return nil, badinput.Errorf("%s %s: %w", o.Key, source, err)
		}
		train, held, err := tiny.Problems()
		if name == "test" {
			return held, err
		}
		return train, err
	}
	var err error
	if cfg.CacheDataset {
		o.copy = filepath.Join(cfg.RunDir, "data", name)
	}
	_, statErr := os.Stat(filepath.Join(o.copy, "manifest.json")) // written last, so the copy is complete
	if o.copy != "" && statErr == nil && !slices.ContainsFunc(makes, cfg.Allowed) {
		o.Set, err = dataset.OpenStore(o.copy)
	} else {
		_, statErr := os.Stat(source)
		o.Set, err = dataset.Open(ctx, source, dataset.Options{Setting: o.Key, Split: split, Strict: statErr == nil, AnswerMatch: matching(cfg),
			KeepColumns: cfg.RewardFile != ""})
	}
	if err != nil {
		return nil, err
	}
	p.Sets = append(p.Sets, o)
	m := o.Manifest()
	if hash != "" {
		if err := m.CheckHash(hash); err != nil {
			return nil, err
		}
	}
	if n := len(m.Refused); n > 0 { // of a data set on the Hub; in a file of the user's own it is an error
		warn(fmt.Sprintf("%s=%s: %s of %d %s refused, and left out; 'grpo data inspect --refused --split %s %s' lists %s", o.Key, source,
			plural.Of(n, "row"), n+m.Problems, plural.Pick(n, "is", "are"), cmp.Or(split, "train"), source, plural.Pick(n, "it", "them")))
	}
	if names := m.Misspellings(); len(names) > 0 && cfg.RewardFile == "" { // a reward file may use any column
		warn(fmt.Sprintf("%s=%s: %s not read: %s", o.Key, source, plural.Of(len(names), "column")+plural.Pick(len(names), " is", " are"),
			strings.Join(names, ", ")))
	}
	return o.Problems(), nil
}

// matching is how answers are matched by default; "" if each row must say it.
func matching(cfg *configs.Config) match.By {
	if cfg.AnswerMatch == "row" {
		return ""
	}
	return match.By(cfg.AnswerMatch)
}

// WriteCopies writes the run's own copies of its data, if it keeps them.
func (p *Problems) WriteCopies(ctx context.Context) error {
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
