// Package judging opens the sandbox and the reward of a configuration, and checks the problems against them. It does not
// know who uses the scores.
package judging

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"time"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/sources"
	"github.com/seed-7879b91d/grpo/reward"
)

// Judging turns completions into scores.
type Judging struct {
	Grader  reward.Grader
	Sandbox reward.Backend // runs programs
	judge   *reward.Judge  // nil if the grader is the caller's own
	mix     reward.Weights // of reward=weights

	between     string // a warning about scores between right and wrong
	saidBetween bool
}

// CallerGrader is a manifest's name of a grader that the caller brought.
const CallerGrader = "own"

// Open opens the sandbox and the judge, tries the reward file, and checks the problems' checkers: an unusable one is an
// error in the user's own file, and is otherwise left out with a warning. With the caller's own grader there is neither
// sandbox nor Python. wrap, if not nil, wraps the grader.
func Open(ctx context.Context, cfg *configs.Config, own reward.Grader, wrap func(reward.Grader) reward.Grader, p *sources.Problems,
	warn func(string)) (*Judging, error) {
	j := &Judging{Grader: own, Sandbox: reward.Backend{Kind: CallerGrader}}
	if err := requireFiles(cfg); err != nil {
		return nil, err
	}
	if own == nil {
		if err := j.openSandbox(ctx, cfg, p, warn); err != nil {
			return nil, errors.Join(err, j.Close())
		}
		if err := j.try(ctx, cfg, p, warn); err != nil {
			return nil, errors.Join(err, j.Close())
		}
	}
	if cfg.Blocklist != "" {
		list, err := data.LoadBlocklist(cfg.Blocklist)
		if err != nil {
			return nil, errors.Join(err, j.Close())
		}
		j.Grader = reward.Blocking(j.Grader, list, cfg.RejectBlocklisted)
	}
	if wrap != nil {
		if j.Grader = wrap(j.Grader); j.Grader == nil {
			return nil, errors.Join(badinput.Errorf("the program's own wrapper (WrapGrader) returned nil, expected a grader"), j.Close())
		}
	}
	j.Grader = reward.Finite(j.Grader)
	return j, nil
}

// requireFiles fails if a file is missing, before anything is opened.
func requireFiles(cfg *configs.Config) error {
	for _, file := range []struct{ key, path string }{
		{"blocklist", cfg.Blocklist}, {"reward_file", cfg.RewardFile}, {"judge_prompt", cfg.JudgePrompt}} {
		if _, err := os.Stat(file.path); file.path != "" && err != nil {
			return sources.MissingText(cfg, file.key, badinput.Errorf("%s: %w", file.key, err))
		}
	}
	return nil
}

func (j *Judging) openSandbox(ctx context.Context, cfg *configs.Config, p *sources.Problems, warn func(string)) (err error) {
	rc := reward.Config{Weights: cfg.Weights(), File: cfg.RewardFile, FilePython: cfg.RewardPython,
		OnTruncated: reward.Truncation(cfg.OnTruncated), Timeout: time.Duration(cfg.RewardTimeout * float64(time.Second)),
		MaxTests: cfg.MaxTests, InfraLimit: cfg.InfraThreshold, Sandbox: cfg.Sandbox, URL: cfg.SandboxURL, Slots: cfg.SandboxSlots,
		Python: cfg.Python, Answers: !(cfg.Env == "tools" && len(cfg.Tools) > 0) && data.AllAnswers(p.Train, p.HeldOut)}
	if cfg.Sandbox == "fusion" {
		if cfg.SandboxURL == "" && os.Getenv("SANDBOX_URL") == "" && !rc.Answers {
			return badinput.Errorf("sandbox=fusion: no server is named; type sandbox_url=http://host:8080, or set SANDBOX_URL")
		}
		rc.Sandbox = "auto"
	}
	if rc.Judge, err = RefereeConfig(cfg, warn); err != nil {
		return err
	}
	if j.judge, err = reward.Open(ctx, rc); err != nil {
		return err
	}
	if j.judge.Whole() && cfg.Env != "none" {
		return badinput.Errorf("reward_file=%s: compute_rewards judges completions of one turn together, and with env=%s they have several; "+
			"write compute_reward(completion, ground_truth)", cfg.RewardFile, cfg.Env)
	}
	j.Grader, j.Sandbox = j.judge, j.judge.Backend()
	if cfg.Reward == "weights" || cfg.Reward == "custom" {
		j.mix, err = reward.ParseWeights(cfg.Weights())
	}
	return err
}

// try checks the problems and the reward file against each other.
func (j *Judging) try(ctx context.Context, cfg *configs.Config, p *sources.Problems, warn func(string)) error {
	for _, set := range []struct {
		key, source string
		problems    *[]data.Problem
	}{{"data", cfg.Data, &p.Train}, {"test_data", cfg.TestData, &p.HeldOut}} {
		faults, err := j.judge.CheckerFaults(ctx, *set.problems)
		if err != nil {
			return err
		}
		if len(faults) == 0 {
			continue
		}
		first := fmt.Sprintf("the checker of problem %s: %s", (*set.problems)[faults[0].Index].ID, faults[0].Why)
		if _, err := os.Stat(set.source); err == nil || len(faults) == len(*set.problems) {
			return badinput.Errorf("%s=%s: %s; %d of %d problems have a checker that cannot be used: fix or remove them",
				set.key, set.source, first, len(faults), len(*set.problems))
		}
		warn(fmt.Sprintf("%s=%s: %d problems are left out, for their checker cannot be used; the first: %s",
			set.key, set.source, len(faults), first))
		*set.problems = withoutFaulty(*set.problems, faults)
	}
	for _, problems := range [][]data.Problem{p.Train, p.HeldOut} {
		if len(problems) > 0 {
			return j.judge.Try(ctx, &problems[0])
		}
	}
	return nil
}

// withoutFaulty returns the problems without the faulty ones.
func withoutFaulty(problems []data.Problem, faults []reward.CheckerFault) []data.Problem {
	kept := make([]data.Problem, 0, len(problems)-len(faults))
	for i, p := range problems {
		if len(faults) > 0 && faults[0].Index == i {
			faults = faults[1:]
			continue
		}
		kept = append(kept, p)
	}
	return kept
}

// Judge runs and judges programs; nil if the grader is the caller's own.
func (j *Judging) Judge() *reward.Judge { return j.judge }

// Inspect inspects a score, which the caller's own function may have given, for Warnings.
func (j *Judging) Inspect(s reward.Score) {
	if c := s.Components.Correct; c != 0 && c != 1 && s.Excluded == "" && j.between == "" {
		j.between = fmt.Sprintf("the program's own grader or environment sets Components.Correct to %v, expected 1 where a completion is right "+
			"and 0 where it is not: pass@1 and whatever else counts completions goes by it; put what is in between into Reward", c)
	}
}

// Warnings returns new warnings about checkers and the reward file, and one about odd scores.
func (j *Judging) Warnings() (w []string) {
	if j.between != "" && !j.saidBetween {
		w, j.saidBetween = append(w, j.between), true
	}
	if j.judge == nil {
		return w
	}
	return append(w, j.judge.Warnings()...)
}

// CustomSeconds is the mean duration of a call of the reward file; 0 without one.
func (j *Judging) CustomSeconds() float64 {
	if j.judge == nil {
		return 0
	}
	return j.judge.Stats().CustomSeconds
}

// Components are the means of the components of reward=weights and reward=custom. For other rewards, the metrics have them
// under other names.
func (j *Judging) Components(scores iter.Seq[reward.Score]) map[string]float64 {
	return j.mix.Means(scores)
}

// String says where programs run.
func (j *Judging) String() string {
	if j.judge == nil {
		return "none: the grader is the program's own"
	}
	return j.Sandbox.String()
}

// Close closes the sandbox.
func (j *Judging) Close() error {
	if j.judge == nil {
		return nil
	}
	return j.judge.Close()
}
