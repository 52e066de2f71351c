package reward

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/precondition"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// Truncation says how a completion is scored that was cut off at the length limit.
type Truncation string

const (
	GradeTruncated    Truncation = "grade"    // score it as any other
	MaskTruncated     Truncation = "mask"     // exclude it from its group, without running it
	PenaliseTruncated Truncation = "penalise" // score it as one without a program, without running it
)

// Rules are the settings of a reward.
type Rules struct {
	Weights     Weights
	OnTruncated Truncation // "" is GradeTruncated
	// Timeout is the limit of processor time for tests whose problem sets none; 0 is 6 s.
	Timeout time.Duration
	// MaxTests, if above zero, is the most tests of a problem that are run: those with the largest inputs.
	MaxTests int
	// InfraLimit is the number of failures of the sandbox, out of 256 completions, above which grading stops; 0 is 8.
	InfraLimit int
}

// Judge is the Grader that runs programs on tests, and calls the reward file and the judge model if there are any.
type Judge struct {
	rules   Rules
	tester  tester
	checker checker
	custom  *custom   // nil without a reward file
	referee *refereed // nil without a judge model
	infra   infraWatch
	files   infraWatch // of the reward file

	opinions infraWatch // of the referee

	graded atomic.Int64
	cached atomic.Int64

	backend Backend
	closers []interface{ Close() error }
}

// NewJudge makes a judge of runners. submissions runs the programs of the model, and trusted the checkers, which
// are kept apart from them. customs runs compute_reward, which it must have loaded; nil without a reward file. The other two may be nil
// if no problem needs them. The rules must pass Check.
func NewJudge(rules Rules, submissions, trusted, customs Runner) *Judge {
	rules.OnTruncated = cmp.Or(rules.OnTruncated, GradeTruncated)
	rules.Timeout = cmp.Or(rules.Timeout, 6*time.Second)
	rules.InfraLimit = cmp.Or(rules.InfraLimit, 8)
	limits := sandbox.Limits{CPU: rules.Timeout}
	j := &Judge{
		rules:    rules,
		checker:  checker{runner: trusted, limits: limits},
		infra:    infraWatch{limit: rules.InfraLimit},
		files:    infraWatch{limit: rules.InfraLimit, file: true},
		opinions: infraWatch{limit: rules.InfraLimit, judge: true},
	}
	if customs != nil {
		j.custom = &custom{runner: customs, limits: limits}
	}
	patience := 1
	if rules.Weights.Fraction != 0 {
		patience = 3
	}
	j.tester = tester{
		runner: submissions, checker: &j.checker, limits: limits, patience: patience,
		sets: newTestSets(rules.MaxTests), seen: newSingleFlight[[sha256.Size]byte, outcome](rememberedPrograms),
	}
	return j
}

// Backend describes where programs run, for a judge that Open made.
func (j *Judge) Backend() Backend { return j.backend }

// Close ends the sandbox of a judge that Open made. Programs that would need it later are errors.
func (j *Judge) Close() error {
	var errs []error
	for _, c := range j.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// WeighFormat sets the weight of the format, which completions without a program lose. It must not be called while grading.
func (j *Judge) WeighFormat(weight float64) { j.rules.Weights.Format = weight }

// Check validates the rules.
func (r Rules) Check() error {
	switch {
	case r.OnTruncated != "" && r.OnTruncated != GradeTruncated && r.OnTruncated != MaskTruncated && r.OnTruncated != PenaliseTruncated:
		return badinput.Errorf("on_truncated=%s: expected grade, mask or penalise", r.OnTruncated)
	case r.Timeout < 0 || r.Timeout > time.Hour:
		return badinput.Errorf("reward_timeout=%s: expected a time up to 1h", r.Timeout)
	case r.MaxTests < 0:
		return badinput.Errorf("max_tests=%d: expected 0 for all tests, or more", r.MaxTests)
	case r.InfraLimit < 0:
		return badinput.Errorf("infra_limit=%d: expected a count above 0", r.InfraLimit)
	}
	return nil
}

// Grade scores one completion.
func (j *Judge) Grade(ctx context.Context, c Completion) (s Score, err error) {
	precondition.NotNil("reward.Judge.Grade", "j", j, "problem", c.Problem)
	if err := cmp.Or(j.infra.stopped(), j.files.stopped(), j.opinions.stopped()); err != nil {
		return s, err
	}
	j.graded.Add(1)
	c.Group = cmp.Or(c.Group, c.Problem.ID)
	s.Total = c.Problem.NumTests
	if j.rules.MaxTests > 0 {
		s.Total = min(s.Total, j.rules.MaxTests)
	}
	if c.MaxTokens > 0 {
		s.Components.Length = float64(c.Tokens) / float64(c.MaxTokens)
	}
	if c.Truncated && j.rules.OnTruncated == MaskTruncated {
		s.Excluded = ExcludedTruncated
		return s, nil
	}
	if c.Truncated && j.rules.OnTruncated == PenaliseTruncated {
		s.Components.Format = -1
		s.Reward = j.rules.Weights.Apply(s.Components)
		return s, nil
	}
	used, err := j.measure(ctx, c, &s)
	if err != nil {
		return Score{}, err
	}
	if used {
		if err := j.infra.note(s.Excluded == ExcludedInfra, s.Note); err != nil {
			return Score{}, err
		}
	}
	s.Reward = j.rules.Weights.Apply(s.Components)
	return s, nil
}

// measure fills in the components, and reports whether a sandbox was needed.
func (j *Judge) measure(ctx context.Context, c Completion, s *Score) (used bool, err error) {
	if c.Problem.Kind == data.Answer {
		err = j.answer(ctx, c, s)
	} else {
		used, err = j.program(ctx, c, s)
	}
	if err != nil {
		return used, err
	}
	if j.custom != nil {
		used = true
		if err := j.ask(ctx, c, s); err != nil {
			return used, err
		}
	}
	if j.referee != nil && s.Excluded == "" {
		return used, j.consult(ctx, c, s)
	}
	return used, nil
}

// program extracts the program from a completion and tests it.
func (j *Judge) program(ctx context.Context, c Completion, s *Score) (used bool, err error) {
	code, ok := c.Text, true
	if !c.Bare {
		code, ok = Extract(c.Text)
	}
	if !ok {
		s.Components.Format = -1
		return false, nil
	}
	if s.Total == 0 {
		return false, nil
	}
	return true, j.test(ctx, c, code, s)
}

// ask calls the reward file on a completion. If it fails, and the reward depends on it, the completion is
// excluded.
func (j *Judge) ask(ctx context.Context, c Completion, s *Score) error {
	value, note, err := j.custom.scoreOf(ctx, c)
	if broken := (*sandbox.InfraError)(nil); errors.As(err, &broken) {
		s.Excluded, s.Note = ExcludedInfra, cmp.Or(s.Note, broken.Error())
		return nil
	}
	if err != nil {
		return err
	}
	s.Components.Custom = value
	if note != "" && s.Excluded == "" && j.rules.Weights.Custom != 0 {
		s.Excluded, s.Note = ExcludedCustom, note
	}
	s.Note = cmp.Or(s.Note, note)
	return j.files.note(s.Excluded == ExcludedCustom, note)
}

// test runs the program on the tests and fills in the results.
func (j *Judge) test(ctx context.Context, c Completion, code string, s *Score) error {
	o, cached, err := j.tester.test(ctx, c.Group, c.Problem, code)
	if err != nil {
		return err
	}
	s.Verdict, s.Passed, s.Total, s.CPU, s.Note, s.Cached = o.verdict, o.passed, o.total, o.cpu, o.note, cached
	s.Tests = slices.Clone(o.tests) // the cache owns the original
	if cached {
		j.cached.Add(1)
	}
	switch o.verdict {
	case INFRA:
		s.Excluded = ExcludedInfra
		return nil
	case AC:
		s.Components.Correct = 1
	}
	if o.verdict != CE {
		s.Components.Compile = 1
	}
	s.Components.Fraction = float64(o.passed) / float64(o.total)
	return nil
}

// groundTruth is the ground_truth argument of compute_reward: the column of that name if the problem's row
// has one, else the expected answer if there is a single one, else the tests as JSON.
func groundTruth(ctx context.Context, p *data.Problem) (string, error) {
	var meta struct {
		GroundTruth *string `json:"ground_truth"`
	}
	if json.Unmarshal(p.Metadata, &meta) == nil && meta.GroundTruth != nil {
		return *meta.GroundTruth, nil
	}
	tests, err := p.Tests(ctx)
	if err != nil {
		return "", err
	}
	if p.Kind == data.Answer && len(tests) == 1 {
		return tests[0].Match.Want, nil
	}
	text, err := data.EncodeTests(tests)
	return string(text), err
}

// Stats are counts of a judge.
type Stats struct {
	Graded int64 `json:"graded"`
	Cached int64 `json:"cached"`
	// Infra counts completions that were left out because the sandbox failed.
	Infra int64 `json:"infra"`
	// CheckerErrors and CustomErrors count answers on which the author's code failed; LastCustomError
	// is the last such failure of the reward file.
	CheckerErrors   int64  `json:"checker_errors"`
	CustomErrors    int64  `json:"custom_errors"`
	LastCustomError string `json:"last_custom_error,omitempty"`
	// CustomSeconds is how long a call of the reward file took, on average.
	CustomSeconds float64 `json:"custom_seconds,omitempty"`
}

// Stats are the counts so far.
func (j *Judge) Stats() Stats {
	s := Stats{
		Graded: j.graded.Load(), Cached: j.cached.Load(),
		Infra: j.infra.total(), CheckerErrors: j.checker.failed.Load(),
	}
	if j.custom != nil {
		j.custom.fillStats(&s)
	}
	return s
}
