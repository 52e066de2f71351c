package suites

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/dataset"
	"github.com/seed-7879b91d/grpo/data/suite"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/plural"
	"github.com/seed-7879b91d/grpo/reward"
)

// OracleResult is how the reference solutions of a suite fare in its tests.
type OracleResult struct {
	Suite     string           `json:"suite"`
	Source    string           `json:"source"`
	SHA256    string           `json:"source_sha256"`
	Problems  int              `json:"problems"`
	Solutions int              `json:"solutions"` // problems that have a solution
	Right     int              `json:"right"`
	Score     float64          `json:"score"`
	Wrong     []FailedSolution `json:"wrong"`
	Refused   int              `json:"refused,omitempty"`
}

// FailedSolution is a solution that fails.
type FailedSolution struct {
	Problem string         `json:"problem"`
	Verdict reward.Verdict `json:"verdict"`
	Note    string         `json:"note,omitempty"`
}

// Oracle judges the reference solutions of a suite as a model's answers would be. A score below 1 limits what any model can reach.
func (p *Plan) Oracle(ctx context.Context, cfg *configs.Config) (*OracleResult, error) {
	set, err := dataset.Open(ctx, p.Tasks, dataset.Options{})
	if err != nil {
		return nil, err
	}
	defer set.Close()
	known := map[string]*data.Problem{}
	problems := set.Problems()
	for i := range problems {
		known[problems[i].ID] = &problems[i]
	}
	j := &OracleResult{Suite: p.Suite.Name, Source: p.Source, SHA256: p.Origin.SHA256, Problems: len(problems),
		Refused: len(p.Refused), Wrong: []FailedSolution{}}
	var answers []reward.Completion
	err = p.Suite.Each(ctx, p.Options, func(item suite.Item) error {
		if problem := known[item.ID]; problem != nil && item.Canonical != "" {
			c := reward.Completion{Problem: problem, Text: item.Canonical}
			if p.Options.Style == suite.Completion {
				c = p.whole(c)
			}
			answers = append(answers, c)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(answers) == 0 {
		return nil, badinput.Errorf("--oracle: %s has no solutions in %s; leave it out", p.Suite.Title, p.Source)
	}
	err = j.judge(ctx, cfg, answers)
	return j, err
}

func (j *OracleResult) judge(ctx context.Context, cfg *configs.Config, answers []reward.Completion) (err error) {
	judge, err := reward.Open(ctx, reward.Config{Sandbox: cfg.Sandbox, Slots: cfg.SandboxSlots, Python: cfg.Python, MaxTests: cfg.MaxTests,
		Timeout: time.Duration(cfg.RewardTimeout * float64(time.Second)), Answers: answers[0].Problem.Kind == data.Answer})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, judge.Close()) }()
	in := make(chan reward.Completion, len(answers))
	for _, c := range answers {
		in <- c
	}
	close(in)
	for graded, err := range reward.Stream(ctx, judge, in, 2*runtime.NumCPU()) {
		if err != nil {
			return err
		}
		if j.Solutions++; graded.Score.Components.Correct == 1 {
			j.Right++
			continue
		}
		j.Wrong = append(j.Wrong, FailedSolution{graded.Problem.ID, graded.Score.Verdict, graded.Score.Note})
	}
	j.Score = float64(j.Right) / float64(j.Solutions)
	return nil
}

// Print prints it for people.
func (j *OracleResult) Print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s, %d problems of %s (SHA-256 %.12s…): %d of %d solutions are right, score %.3f\n",
		j.Suite, j.Problems, j.Source, j.SHA256, j.Right, j.Solutions, j.Score)
	if err == nil && j.Refused > 0 {
		_, err = fmt.Fprintf(w, "%s left out, whose tests fit no known shape\n", plural.Of(j.Refused, "problem"))
	}
	for _, f := range j.Wrong {
		if err == nil {
			_, err = fmt.Fprintf(w, "%s: %s %s\n", display.Line(f.Problem), f.Verdict, display.Line(f.Note))
		}
	}
	return err
}
