package provenance

import (
	"maps"
	"slices"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/sources"
)

// EvaluationInputs is how a checkpoint is evaluated: with the current settings, compared to those of its run.
type EvaluationInputs struct {
	Config, Run *configs.Config
	Model       Part
	Problems    *sources.Problems
	Judged      bool // the reward's files are used
	MultiTurn   bool // env and blocklist apply to the answers
}

// Compare warns of parts that both settings name and that changed since the checkpoint. It reports whether the problems are the same.
func (a EvaluationInputs) Compare(before Parts, warn func(string)) (sameProblems bool, err error) {
	// The other settings name nothing that is read where nothing is trained.
	cfg := configs.Config{Model: a.Config.Model, TestData: a.Config.TestData, PromptTemplate: a.Config.PromptTemplate,
		RewardFile: a.Config.RewardFile, JudgePrompt: a.Config.JudgePrompt}
	if a.MultiTurn {
		cfg.Blocklist = a.Config.Blocklist
		cfg.Env, cfg.HealTemplate, cfg.MCP, cfg.OpenEnvTemplate = a.Config.Env, a.Config.HealTemplate, a.Config.MCP, a.Config.OpenEnvTemplate
	}
	now, err := FingerprintInputs(&cfg, a.Problems, a.Judged)
	if err != nil {
		return false, err
	}
	for key, same := range map[string]bool{
		"test_data":        cfg.TestData == a.Run.TestData && a.Config.TestSplit == a.Run.TestSplit,
		"prompt_template":  cfg.PromptTemplate == a.Run.PromptTemplate && cfg.PromptTemplate != "", // the built-in one depends on the problems
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
		warn("the model differs from the one that the run trained: " + what)
	}
	others := now.Differences(before)
	for _, key := range slices.Sorted(maps.Keys(others)) {
		warn("changed since the run was trained, so results do not compare with the run's: " + others[key])
	}
	_, otherProblems := others["test_data"]
	return !otherProblems, nil
}
