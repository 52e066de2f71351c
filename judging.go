package grpo

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/reward"
)

// judging is what turns completions into scores.
type judging struct {
	grader  reward.Grader
	sandbox reward.Backend // that programs run in
	judge   *reward.Judge  // nil where the grader is the caller's own
}

// ownGrader is what a manifest calls a grader that the caller brought.
const ownGrader = "own"

// openJudging opens the sandbox and what judges with it. With an own grader there is neither: it needs no Python.
func openJudging(ctx context.Context, cfg *configs.Config, own custom) (*judging, error) {
	j := &judging{grader: own.grader, sandbox: reward.Backend{Kind: ownGrader}}
	if own.grader == nil {
		if err := j.openSandbox(ctx, cfg); err != nil {
			return nil, err
		}
	}
	if cfg.Blocklist != "" {
		list, err := data.LoadBlocklist(cfg.Blocklist)
		if err != nil {
			return nil, errors.Join(err, j.Close())
		}
		j.grader = reward.Blocking(j.grader, list, cfg.RejectBlocklisted)
	}
	if own.wrap != nil {
		j.grader = own.wrap(j.grader)
	}
	return j, nil
}

func (j *judging) openSandbox(ctx context.Context, cfg *configs.Config) (err error) {
	rc := reward.Config{Weights: cfg.Weights(), File: cfg.RewardFile, OnTruncated: reward.Truncation(cfg.OnTruncated),
		Timeout: time.Duration(cfg.RewardTimeout * float64(time.Second)), MaxTests: cfg.MaxTests, InfraLimit: cfg.InfraThreshold,
		Sandbox: cfg.Sandbox, URL: cfg.SandboxURL, Slots: cfg.SandboxSlots, Python: cfg.Python}
	if cfg.Sandbox == "fusion" {
		if cfg.SandboxURL == "" && os.Getenv("SANDBOX_URL") == "" {
			return badinput.Errorf("sandbox=fusion: no server is named; type sandbox_url=http://host:8080, or set SANDBOX_URL")
		}
		rc.Sandbox = "auto"
	}
	if j.judge, err = reward.Open(ctx, rc); err != nil {
		return err
	}
	j.grader, j.sandbox = j.judge, j.judge.Backend()
	return nil
}

// String says where programs run, for people.
func (j *judging) String() string {
	if j.judge == nil {
		return "none: the grader is the program's own"
	}
	return j.sandbox.String()
}

// Close gives the sandbox back.
func (j *judging) Close() error {
	if j.judge == nil {
		return nil
	}
	return j.judge.Close()
}
