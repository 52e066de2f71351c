package conversation

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/template"
	"time"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/episode"
	"github.com/seed-7879b91d/grpo/internal/judging"
	"github.com/seed-7879b91d/grpo/internal/sources"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/reward/tools"
)

// Finding is what a template of heal_template can tell of a program that is not right.
type Finding struct {
	Statement     string
	Kind          string // "stdin" or "call"
	FuncName      string // of a call
	Program       bool   // there was one in the answer
	Verdict       string // WA, RTE, TLE and so on, of all tests
	tools.Failure        // of the first public test that fails: Test, Of, Outcome, Input, Expected, Got, Error

	trace func(test int) (string, error)
}

// Trace is what the program does on the test that fails, line by line; "" where none does.
func (f *Finding) Trace() (string, error) {
	if f.Test == 0 || f.trace == nil {
		return "", nil
	}
	return f.trace(f.Test)
}

// healing is the environment of env=heal. Where programs do not run in cells of this machine, no test is shown.
func healing(cfg *configs.Config, j *judging.Judging) (env episode.Environment, err error) {
	text, err := sources.HealWording(cfg)
	if err != nil {
		return nil, err
	}
	words, err := template.New("heal_template").Parse(strings.TrimSuffix(text, "\n"))
	if err != nil {
		return nil, badinput.Errorf("heal_template: %w", err)
	}
	d := doctor{words: words, options: options(cfg, j)}
	for _, f := range []Finding{{}, {Program: true, Verdict: "WA", Failure: tools.Failure{Test: 1, Of: 1, Input: "1", Expected: "2"}}} {
		if _, err := d.say(&f); err != nil {
			return nil, err
		}
	}
	h := episode.Healing{Grader: j.Grader, Tell: d.tell, Reward: episode.LastReward}
	switch cfg.TurnReward {
	case "best":
		h.Reward = episode.BestReward
	case "discounted":
		h.Reward = episode.DiscountedReward(cfg.TurnDiscount)
	}
	return h, nil
}

// options are those of tools.
func options(cfg *configs.Config, j *judging.Judging) tools.Options {
	return tools.Options{Judge: j.Judge(), PublicTests: cfg.PublicTests, CallTime: time.Duration(cfg.TurnSeconds * float64(time.Second))}
}

// doctor says what is wrong with a program.
type doctor struct {
	words   *template.Template
	options tools.Options
}

func (d doctor) tell(ctx context.Context, p *data.Problem, said episode.Said, s reward.Score) (string, error) {
	f := Finding{Statement: p.Statement, Kind: p.Kind.String(), FuncName: p.FuncName, Verdict: string(s.Verdict)}
	code, found := reward.Extract(said.Raw)
	f.Program = found
	if found && d.options.Judge != nil && d.options.Judge.Pool() != nil {
		var err error
		if f.Failure, err = tools.FirstFailure(ctx, p, code, d.options); err != nil {
			return "", err
		}
		f.trace = func(test int) (string, error) { return d.trace(ctx, p, code, test) }
	}
	return d.say(&f)
}

func (d doctor) say(f *Finding) (string, error) {
	var out strings.Builder
	if err := d.words.Execute(&out, f); err != nil {
		return "", badinput.Errorf("heal_template: %w", err)
	}
	if strings.TrimSpace(out.String()) == "" {
		return "", badinput.Errorf("heal_template: it says nothing of a program with the verdict %q; expected some words", f.Verdict)
	}
	return out.String(), nil
}

// trace shows what a program does on a public test.
func (d doctor) trace(ctx context.Context, p *data.Problem, code string, test int) (text string, err error) {
	o := d.options
	o.Tools = []string{"trace"}
	k, err := tools.Open(ctx, p, o)
	if err != nil {
		return "", err
	}
	defer k.Close()
	args, err := json.Marshal(map[string]any{"code": code, "test": test})
	if err == nil {
		text, err = k.Call(ctx, "trace", args)
	}
	if err != nil {
		err = fmt.Errorf("trace: %w", err)
	}
	return text, err
}
