package judging

import (
	"os"
	"path/filepath"
	"time"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/cachedir"
	"github.com/seed-7879b91d/grpo/internal/openfile"
	"github.com/seed-7879b91d/grpo/reward/referee"
)

// RefereeConfig is the configuration of the model that judges; empty without judge_url.
func RefereeConfig(cfg *configs.Config, warn func(string)) (r referee.Config, err error) {
	if cfg.JudgeURL == "" {
		return r, nil
	}
	r = referee.Config{URL: cfg.JudgeURL, Model: cfg.JudgeModel, Score: cfg.JudgeScore, Key: os.Getenv("JUDGE_API_KEY"),
		Budget: int64(cfg.JudgeBudget), Concurrency: cfg.JudgeSlots, Timeout: time.Duration(cfg.JudgeTimeout * float64(time.Second))}
	if cfg.JudgePrompt != "" {
		text, err := openfile.Read(cfg.JudgePrompt)
		if err != nil {
			return r, badinput.Errorf("judge_prompt: %w", err)
		}
		r.Prompt = string(text)
	}
	var why string
	if r.Cache, why, err = cachedir.Find(filepath.Join("grpo", "judge")); err != nil {
		return r, badinput.Errorf("no folder for the judge's answers: %w", err)
	}
	if why != "" {
		warn(why)
	}
	return r, nil
}
