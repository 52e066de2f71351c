package configs

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Other trainers' names of settings are answered with the name here, and with the value if it has the same meaning.
func TestHabits(t *testing.T) {
	for word, message := range map[string]string{
		"num_generations=8":             "num_generations: it is completions_per_prompt here; type completions_per_prompt=8",
		"actor_rollout_ref.rollout.n=8": "actor_rollout_ref.rollout.n: it is completions_per_prompt here; type completions_per_prompt=8",
		"grpo.num_prompts_per_step=4":   "grpo.num_prompts_per_step: it is prompts_per_step here; type prompts_per_step=4",
		"Num-Generations=":              "Num-Generations: it is completions_per_prompt here; type completions_per_prompt=VALUE",
		"steps=5":                       "steps: it is max_steps here; type max_steps=5",
		"lr=1e-4":                       "lr: it is learning_rate here; type learning_rate=1e-4",
		"completions=4":                 "completions: it is completions_per_prompt here; type completions_per_prompt=4",
		"group=4":                       "group: it is completions_per_prompt here; type completions_per_prompt=4",
		"policy.train.seed=3":           "policy.train.seed: settings have no sections here; type seed=3",
		"max_completion_length=9":       "max_completion_length: it is max_tokens here; type max_tokens=9",
		"logging_steps=1":               "logging_steps: every step is logged; leave it out",
		"use_vllm=true":                 "use_vllm: sampling is built in, with the weights that are trained; leave it out",
		"colour=red":                    "colour: this key is not known; 'grpo --print-config' lists all",
		"max_prompt_length=512":         "max_prompt_length: the prompt limit is in characters here; type max_prompt_chars=4000",
		"temprature=0.5":                "temprature: this key is not known; did you mean temperature?",
		"lora_ranks=4":                  "lora_ranks: this key is not known; did you mean lora_rank?",
		"custom_reward_function.path=a.py": "custom_reward_function.path: a reward of your own is a Python file here; " +
			"type reward=custom reward_file=FILE",
	} {
		_, err := Load(Source{Overrides: []string{word}})
		require.EqualError(t, err, message, word)
	}
	for _, name := range []string{"epsilon", "epsilon_high", "batch", "per_device_train_batch_size", "gradient_accumulation_steps",
		"num_train_epochs", "output_dir", "save_steps", "eval_steps", "model_name_or_path", "bf16", "lora_r"} {
		require.NotEmpty(t, Habit(name, "1"), name)
	}
}

// The names of other trainers in docs/config.md are answered when they are typed.
func TestHabitsOfThePage(t *testing.T) {
	_, table, there := strings.Cut(documentHead, "| there | here |")
	require.True(t, there)
	found := 0
	for line := range strings.Lines(table) {
		row := strings.Split(line, "|")
		if len(row) < 3 {
			continue
		}
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			found++
			require.NotEmpty(t, Habit(m[1], "1"), m[1])
		}
	}
	require.Greater(t, found, 15)
}

// The recommended settings exist, and no setting is shadowed by another trainer's name.
func TestHabitsNameSettings(t *testing.T) {
	typed := regexp.MustCompile(`\b([a-z_0-9]+)=`)
	for name, here := range synonyms {
		require.Contains(t, keys(), here, name)
		require.Empty(t, Key(name), "%s is a setting", name)
		require.NotContains(t, foreignKeys, name)
	}
	for name, instead := range foreignKeys {
		require.Empty(t, Key(name), "%s is a setting", name)
		for _, m := range typed.FindAllStringSubmatch(instead, -1) {
			require.True(t, m[1] == "WANDB_PROJECT" || slices.Contains(keys(), m[1]), "%s: %s", name, instead)
		}
	}
}
