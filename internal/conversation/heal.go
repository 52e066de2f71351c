package conversation

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/episode"
	"github.com/seed-7879b91d/grpo/internal/judging"
	"github.com/seed-7879b91d/grpo/internal/plural"
	"github.com/seed-7879b91d/grpo/internal/sources"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/reward/tools"
)

// Finding is the data of a heal_template: what is wrong with a program.
type Finding struct {
	Statement     string
	Kind          string // "stdin", "call" or "answer"
	FuncName      string // of Kind "call"
	Program       bool   // the completion has a program
	Verdict       string // on all tests: WA, RTE, TLE …
	tools.Failure        // the first public test that fails: Test, Of, Outcome, Input, Expected, Got, Error

	trace func(test int) (string, error)
}

// Trace runs the program on the failing test and returns what it does, line by line; "" if no test failed.
func (f *Finding) Trace() (string, error) {
	if f.Test == 0 || f.trace == nil {
		return "", nil
	}
	return f.trace(f.Test)
}

// findings lists the fields of Finding, for error messages.
func findings() (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Finding]()) {
		if f.IsExported() && !f.Anonymous {
			names = append(names, "."+f.Name)
		}
	}
	return append(names, ".Trace")
}

// openHeal opens env=heal. Where programs do not run in sandboxes of this machine, the model is shown no test.
func openHeal(cfg *configs.Config, j *judging.Judging) (env episode.Environment, err error) {
	text, err := sources.HealTemplate(cfg)
	if err != nil {
		return nil, err
	}
	words, err := template.New("heal_template").Parse(strings.TrimSuffix(text, "\n"))
	if err != nil {
		return nil, badinput.Errorf("heal_template: %w", err)
	}
	d := healer{words: words, options: options(cfg, j)}
	for _, f := range []Finding{{}, {Program: true, Verdict: "WA", Failure: tools.Failure{Test: 1, Of: 1, Input: "1", Expected: "2"}}} {
		if _, err := d.render(&f); err != nil {
			return nil, err
		}
	}
	h := episode.Healing{Grader: j.Grader, Tell: d.answer, Reward: episode.LastReward}
	switch cfg.TurnReward {
	case "best":
		h.Reward = episode.BestReward
	case "discounted":
		h.Reward = episode.DiscountedReward(cfg.TurnDiscount)
	}
	return h, nil
}

// mostInspected is the number of problems whose tests are read to see whether some are public.
const mostInspected = 1000

// noteUntested adds a note that says for how many problems no test may be shown, so that the model is told only the verdict.
func (r *Sampler) noteUntested(ctx context.Context, cfg *configs.Config, j *judging.Judging, problems []data.Problem) error {
	problems = slices.DeleteFunc(problems, func(p data.Problem) bool { return p.Kind == data.Answer })
	const told = "so the model is told only the verdict of its program"
	if j.Judge() == nil || j.Judge().Pool() == nil {
		if len(problems) > 0 {
			r.Notes = append(r.Notes, "env=heal: programs do not run in the local sandbox and no test is shown, "+told)
		}
		return nil
	}
	first := ""
	if cfg.PublicTests == 0 && len(problems) > mostInspected {
		first, problems = "the first ", problems[:mostInspected]
	}
	without := 0
	for i := range problems {
		shown := cfg.PublicTests > 0 && problems[i].NumTests > 0
		if !shown && problems[i].NumTests > 0 {
			tests, err := problems[i].Tests(ctx)
			if err != nil {
				return err
			}
			shown = slices.ContainsFunc(tests, func(t data.Test) bool { return t.Public })
		}
		if !shown {
			without++
		}
	}
	if without > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("env=heal: %d of %s%s have no public test, %s; mark tests \"public\": true, or set "+
			"public_tests=1", without, first, plural.Of(len(problems), "problem"), told))
	}
	return nil
}

// options are the options of tools.
func options(cfg *configs.Config, j *judging.Judging) tools.Options {
	return tools.Options{Judge: j.Judge(), PublicTests: cfg.PublicTests, CallTime: time.Duration(cfg.TurnSeconds * float64(time.Second))}
}

// healer writes the answer to a wrong program.
type healer struct {
	words   *template.Template
	options tools.Options
}

func (d healer) answer(ctx context.Context, p *data.Problem, said episode.Said, s reward.Score) (string, error) {
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
	return d.render(&f)
}

func (d healer) render(f *Finding) (string, error) {
	var out strings.Builder
	if err := d.words.Execute(&out, f); err != nil {
		hint := ""
		if strings.Contains(err.Error(), "can't evaluate field") {
			hint = "; there are " + strings.Join(findings(), " ")
		}
		return "", badinput.Errorf("heal_template: %w%s", err, hint)
	}
	if strings.TrimSpace(out.String()) == "" {
		return "", badinput.Errorf("heal_template: it writes nothing for a program with the verdict %q; expected some text", f.Verdict)
	}
	return out.String(), nil
}

// trace runs a program on a public test with the trace tool.
func (d healer) trace(ctx context.Context, p *data.Problem, code string, test int) (text string, err error) {
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
