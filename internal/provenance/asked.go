package provenance

import (
	"maps"
	"slices"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/sources"
)

// Asked is what a checkpoint is asked with: by the settings of now, beside those of its run.
type Asked struct {
	Config, Run *configs.Config
	Model       Part
	Problems    *sources.Problems
	Judged      bool // by the files of the reward
	Converses   bool // for answers, in what env names and without what blocklist does
}

// Compare warns of what both settings name and that is not as it was when the checkpoint was made. It tells whether the problems are.
func (a Asked) Compare(before Parts, warn func(string)) (sameProblems bool, err error) {
	// Of the rest nothing is read where nothing is trained.
	cfg := configs.Config{Model: a.Config.Model, TestData: a.Config.TestData, PromptTemplate: a.Config.PromptTemplate,
		RewardFile: a.Config.RewardFile, JudgePrompt: a.Config.JudgePrompt}
	if a.Converses {
		cfg.Blocklist = a.Config.Blocklist
		cfg.Env, cfg.HealTemplate, cfg.MCP, cfg.OpenEnvTemplate = a.Config.Env, a.Config.HealTemplate, a.Config.MCP, a.Config.OpenEnvTemplate
	}
	now, err := Of(&cfg, a.Problems, a.Judged)
	if err != nil {
		return false, err
	}
	for key, same := range map[string]bool{
		"test_data":        cfg.TestData == a.Run.TestData && a.Config.TestSplit == a.Run.TestSplit,
		"prompt_template":  cfg.PromptTemplate == a.Run.PromptTemplate && cfg.PromptTemplate != "", // what is built in hangs on the problems
		"blocklist":        cfg.Blocklist == a.Run.Blocklist,
		"env":              cfg.Env == a.Run.Env,
		"heal_template":    cfg.HealTemplate == a.Run.HealTemplate,
		"mcp":              cfg.MCP == a.Run.MCP,
		"openenv_template": cfg.OpenEnvTemplate == a.Run.OpenEnvTemplate,
		"reward_file":      cfg.RewardFile == a.Run.RewardFile,
		"judge_prompt":     cfg.JudgePrompt == a.Run.JudgePrompt,
	} {
		if !same {
			delete(now, key)
		}
	}
	if what, differs := (Parts{"model": a.Model}).Differences(before)["model"]; differs {
		warn("the model is not as it was when the run was trained: " + what)
	}
	others := now.Differences(before)
	for _, key := range slices.Sorted(maps.Keys(others)) {
		warn("not as it was when the run was trained, so what comes out is not the run's: " + others[key])
	}
	_, otherProblems := others["test_data"]
	return !otherProblems, nil
}
