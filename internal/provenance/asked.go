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
}

// Compare warns of what both settings name and that is not as it was when the checkpoint was made. It tells whether the problems are.
func (a Asked) Compare(before Parts, warn func(string)) (sameProblems bool, err error) {
	// Of the rest, as of a blocklist, nothing is read where nothing is trained.
	cfg := configs.Config{Model: a.Config.Model, TestData: a.Config.TestData, PromptTemplate: a.Config.PromptTemplate,
		RewardFile: a.Config.RewardFile, JudgePrompt: a.Config.JudgePrompt}
	now, err := Of(&cfg, a.Problems, a.Judged)
	if err != nil {
		return false, err
	}
	for key, same := range map[string]bool{
		"test_data":       cfg.TestData == a.Run.TestData && a.Config.TestSplit == a.Run.TestSplit,
		"prompt_template": cfg.PromptTemplate == a.Run.PromptTemplate && cfg.PromptTemplate != "", // what is built in hangs on the problems
		"reward_file":     cfg.RewardFile == a.Run.RewardFile,
		"judge_prompt":    cfg.JudgePrompt == a.Run.JudgePrompt,
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
