// Package judging opens what a configuration says of judging: the sandbox, the reward and what stands around it, with
// the problems held against it. It does not know who asks for the scores.
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

// Judging is what turns completions into scores.
type Judging struct {
	Grader  reward.Grader
	Sandbox reward.Backend // that programs run in
	judge   *reward.Judge  // nil where the grader is the caller's own
	mix     reward.Weights // that the settings name one by one

	between     string // what is to be said of scores that call completions right in part
	saidBetween bool
}

// Own is what a manifest calls a grader that the caller brought.
const Own = "own"

// Open opens the sandbox and what judges with it, tries the reward file, and looks at the checkers of the problems:
// those that cannot be used are refused where the file is the user's own, else left out with a word. With an own grader
// there is neither sandbox nor Python. wrap, where it is not nil, puts something around the grader.
func Open(ctx context.Context, cfg *configs.Config, own reward.Grader, wrap func(reward.Grader) reward.Grader, p *sources.Problems,
	warn func(string)) (*Judging, error) {
	j := &Judging{Grader: own, Sandbox: reward.Backend{Kind: Own}}
	if err := present(cfg); err != nil {
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
		j.Grader = wrap(j.Grader)
	}
	j.Grader = reward.Finite(j.Grader)
	return j, nil
}

// present refuses files that are not there before anything is opened.
func present(cfg *configs.Config) error {
	for _, file := range []struct{ key, path string }{
		{"blocklist", cfg.Blocklist}, {"reward_file", cfg.RewardFile}, {"judge_prompt", cfg.JudgePrompt}} {
		if _, err := os.Stat(file.path); file.path != "" && err != nil {
			return sources.Missing(cfg, file.key, badinput.Errorf("%s: %w", file.key, err))
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
	if rc.Judge, err = Referee(cfg, warn); err != nil {
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

// try holds the problems and the reward file against each other.
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
			return badinput.Errorf("%s=%s: %s; %d of %d problems have a checker that cannot be used: mend them or take them out",
				set.key, set.source, first, len(faults), len(*set.problems))
		}
		warn(fmt.Sprintf("%s=%s: %d problems are left out, for their checker cannot be used; the first: %s",
			set.key, set.source, len(faults), first))
		*set.problems = without(*set.problems, faults)
	}
	for _, problems := range [][]data.Problem{p.Train, p.HeldOut} {
		if len(problems) > 0 {
			return j.judge.Try(ctx, &problems[0])
		}
	}
	return nil
}

// without gives the problems but for those at fault.
func without(problems []data.Problem, faults []reward.CheckerFault) []data.Problem {
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

// Judge is what runs programs and judges them, nil where the grader is the caller's own.
func (j *Judging) Judge() *reward.Judge { return j.judge }

// Look looks at a score, which a function of the caller's own may have given. Warnings has what is odd about it.
func (j *Judging) Look(s reward.Score) {
	if c := s.Components.Correct; c != 0 && c != 1 && s.Excluded == "" && j.between == "" {
		j.between = fmt.Sprintf("the program's own grader or environment sets Components.Correct to %v, expected 1 where a completion is right "+
			"and 0 where it is not: pass@1 and whatever else counts completions goes by it; put what is in between into Reward", c)
	}
}

// Warnings are what a person should know of the checkers and the reward file since they were last asked for, and once of scores.
func (j *Judging) Warnings() (w []string) {
	if j.between != "" && !j.saidBetween {
		w, j.saidBetween = append(w, j.between), true
	}
	if j.judge == nil {
		return w
	}
	return append(w, j.judge.Warnings()...)
}

// CustomSeconds is how long a call of the reward file took, on average; 0 without one.
func (j *Judging) CustomSeconds() float64 {
	if j.judge == nil {
		return 0
	}
	return j.judge.Stats().CustomSeconds
}

// Components are the means of the components that reward=weights and custom name; of a reward that has a name, the metrics
// know them by others.
func (j *Judging) Components(scores iter.Seq[reward.Score]) map[string]float64 {
	return j.mix.Means(scores)
}

// String says where programs run, for people.
func (j *Judging) String() string {
	if j.judge == nil {
		return "none: the grader is the program's own"
	}
	return j.Sandbox.String()
}

// Close gives the sandbox back.
func (j *Judging) Close() error {
	if j.judge == nil {
		return nil
	}
	return j.judge.Close()
}
