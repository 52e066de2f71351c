// Package grading scores completions by the tests of their problems: grpo reward, and the flags about where programs run.
package grading

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/judging"
	"github.com/seed-7879b91d/grpo/internal/notice"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// Sandbox are the flags about where programs run.
type Sandbox struct{ cfg reward.Config }

// Register adds the flags to a verb.
func (f *Sandbox) Register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.cfg.Sandbox, "sandbox", "auto", "sandbox: auto, a server if SANDBOX_URL is set, else local; "+
		"local, isolated cells here; unsafe, cells or, if impossible, no isolation")
	cmd.Flags().IntVar(&f.cfg.Slots, "sandbox-slots", 0, "programs run at once (default: SANDBOX_MAX_CONCURRENCY, else one per processor)")
	cmd.Flags().StringVar(&f.cfg.Python, "python", "", "Python interpreter (default: python3)")
}

// Cells are the options of the local sandbox.
func (f *Sandbox) Cells() (sandbox.Options, error) { return f.cfg.Cells() }

// flags are the flags about the reward.
type flags struct {
	Sandbox
	timeout    float64
	truncation string
	judge      configs.Config // for the settings of the judge
}

func (f *flags) register(cmd *cobra.Command) {
	f.Sandbox.Register(cmd)
	cmd.Flags().StringVar(&f.cfg.Reward, "reward", "", "correct: 1 if all tests pass; fraction: the share that passes; "+
		"custom: the reward file alone; weights: the mix of --reward-weights (default correct, or as the other flags imply)")
	cmd.Flags().StringVar(&f.cfg.Weights, "reward-weights", "", "weights of the components format, compile, fraction, correct, "+
		"length, custom and judge, such as correct=1,format=0.1")
	cmd.Flags().StringVar(&f.cfg.File, "reward-file", "", "Python file with compute_reward(completion: str, ground_truth: str) -> float, "+
		"or compute_rewards(completions: list) -> list, for all completions of a problem")
	fl := cmd.Flags()
	fl.StringVar(&f.judge.JudgeURL, "judge-url", "", "`address` of an OpenAI-compatible API with the judge; JUDGE_API_KEY is its key")
	fl.StringVar(&f.judge.JudgeModel, "judge-model", "", "`model` that judges")
	fl.StringVar(&f.judge.JudgePrompt, "judge-prompt", "", "`file` with the judge's prompt, a Go text/template")
	fl.StringVar(&f.judge.JudgeScore, "judge-score", "", "`pattern` (regular expression) whose one group is the score in an answer")
	fl.IntVar(&f.judge.JudgeBudget, "judge-budget", 0, "most requests to the judge; 0: no limit")
	fl.IntVar(&f.judge.JudgeSlots, "judge-slots", 0, "requests to the judge at once; 0: 8")
	fl.Float64Var(&f.judge.JudgeTimeout, "judge-timeout", 0, "seconds to wait for an answer of the judge; 0: 60")
	cmd.Flags().Float64Var(&f.timeout, "reward-timeout", 6, "processor seconds for a test, if its problem sets no limit")
	cmd.Flags().IntVar(&f.cfg.MaxTests, "max-tests", 0, "judge by the N tests of a problem with the largest inputs (default: all)")
	cmd.Flags().StringVar(&f.truncation, "on-truncated", "grade", "how to treat completions that were cut off: grade, mask or penalise")
}

// open makes the judge of the flags.
func (f *flags) open(ctx context.Context) (judge *reward.Judge, err error) {
	if !(f.timeout > 0 && f.timeout <= 3600) {
		return nil, badinput.Errorf("--reward-timeout: found %v, expected seconds above 0, up to 3600", f.timeout)
	}
	cfg := f.cfg
	cfg.Timeout = time.Duration(f.timeout * float64(time.Second))
	cfg.OnTruncated = reward.Truncation(f.truncation)
	if err := f.checkJudge(); err != nil {
		return nil, err
	}
	if cfg.Judge, err = judging.RefereeConfig(&f.judge, func(why string) { notice.Warn(ctx, why) }); err != nil {
		return nil, err
	}
	return reward.Open(ctx, cfg)
}

// checkJudge refuses contradicting flags of the model judge.
func (f *flags) checkJudge() error {
	j := &f.judge
	switch {
	case j.JudgeBudget < 0 || j.JudgeSlots < 0 || !(j.JudgeTimeout >= 0 && j.JudgeTimeout <= 3600):
		return badinput.Errorf("--judge-budget, --judge-slots and --judge-timeout: expected 0 or more, and at most 3600 seconds")
	case j.JudgeURL == "" && (j.JudgeModel+j.JudgePrompt+j.JudgeScore != "" || j.JudgeBudget+j.JudgeSlots > 0 || j.JudgeTimeout > 0):
		return badinput.Errorf("--judge-url: there is no judge; type --judge-url http://host:8000/v1, or leave the others out")
	case j.JudgeURL != "" && j.JudgeModel == "":
		return badinput.Errorf("--judge-model: found nothing; type --judge-model NAME, as the endpoint knows it")
	case j.JudgeURL != "" && !strings.Contains(f.cfg.Weights, "judge="):
		return badinput.Errorf("--judge-url: no weight uses the judge; type --reward weights --reward-weights judge=1, or leave it out")
	}
	return nil
}
