package configs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// idleCases are settings without effect beside others, and the messages about them.
var idleCases = []struct{ words, says string }{
	{"max_turns=5", "max_turns: env=none does not use it; type env=heal or env=tools, or leave it out"},
	{"max_conversation_tokens=90000", "max_conversation_tokens: env=none does not use it; type env=heal or env=tools, or leave it out"},
	{"turn_reward=best", "turn_reward: env=none does not use it; type env=heal, or leave it out"},
	{"env=tools turn_discount=0.4", "turn_discount: env=tools does not use it; type env=heal, or leave it out"},
	{"env=heal turn_discount=0.4", "turn_discount: turn_reward=last does not use it; type turn_reward=discounted, or leave it out"},
	{"turn_seconds=9", "turn_seconds: env=none does not use it; type env=tools, or leave it out"},
	{"tools=python", "tools: env=none does not use it; type env=tools, or leave it out"},
	{"env=heal tools=trace", "tools: env=heal does not use it; type env=tools, or leave it out"},
	{"public_tests=2", "public_tests: env=none does not use it; type env=heal, or leave it out"},
	{"env=program:p public_tests=2", "public_tests: env=program:p does not use it; type env=heal, or leave it out"},
	{"openenv_reward=best", "openenv_reward: env=none does not use it; type env=openenv:URL, or leave it out"},
	{"difficulty_keep=0.5", "difficulty_keep: difficulty_patience=0 gives every problem once an epoch; " +
		"type difficulty_patience=3, or leave it out"},
	{"eval_samples=0 eval_k=0 eval_temperature=0.5",
		"eval_temperature: with eval_samples=0 evaluation is only greedy; type eval_samples=4 eval_k=4, or leave it out"},
	{"eval_samples=0 eval_k=0 eval_top_p=0.5",
		"eval_top_p: with eval_samples=0 evaluation is only greedy; type eval_samples=4 eval_k=4, or leave it out"},
	{"infra_threshold=257", "infra_threshold: found 257, expected at most 256, of as many completions; with that no run stops"},
	{"reward=weights reward_weights=correct=1 reward_file=r.py",
		"reward_file: no weight uses it; add custom=0.5 to reward_weights, or leave it out"},
	{"reward=weights reward_weights=correct=0,format=0.0",
		"reward_weights: all of them are 0, so every reward is 0; type reward_weights=correct=1,format=0.1"},
	{"reward=weights reward_weights=correct=0 kl_coef=0.1",
		"reward_weights: all of them are 0, so every reward is 0; type reward_weights=correct=1,format=0.1"},
}

func TestSettingsWithoutEffect(t *testing.T) {
	for _, c := range idleCases {
		words := strings.Fields(c.words)
		_, err := Load(Source{Overrides: words})
		require.EqualError(t, err, c.says)
		require.True(t, badinput.Is(err))

		key, _, _ := strings.Cut(c.says, ":")
		old := Defaults()
		for _, word := range words { // as by a release that accepted them
			key, text, _ := strings.Cut(word, "=")
			v := value{text: text, isList: key == "tools", list: strings.Split(text, ",")}
			for i, known := range keys() {
				if known == key {
					require.NoError(t, old.set(i, v))
				}
			}
		}
		if old.Reward == "weights" {
			old.FormatCoef = 0
		}
		require.NoError(t, old.Validate(), c.words)
		_, err = Load(Source{Base: &old, Overrides: append(words, "max_steps=7")})
		require.NoError(t, err, "a run that has the setting can be resumed and forked")
		_, err = Load(Source{Overrides: words, GoesOn: func(*Config) bool { return true }})
		require.NoError(t, err, "also where a preset is named again")
		printed := filepath.Join(t.TempDir(), "printed.yaml")
		require.NoError(t, os.WriteFile(printed, old.Marshal(), 0o644))
		_, err = Load(Source{File: printed, Overrides: []string{"max_steps=7"}})
		require.NoError(t, err, "printed settings can be loaded again")
		require.NotEmpty(t, old.whyIdle(key))
	}
}

// A setting that depends on another is accepted if that one is changed, too, or if it has its default.
func TestSettingsThatHaveAnEffect(t *testing.T) {
	for _, words := range []string{"env=heal max_turns=5 turn_reward=discounted turn_discount=0.4 public_tests=2 turn_seconds=9",
		"env=tools tools=python max_conversation_tokens=90000", "env=own turn_reward=best tools=trace", "max_turns=2 turn_reward=last",
		"env=openenv:http://x openenv_reward=best turn_seconds=9", "difficulty_patience=2 difficulty_keep=0.5", "infra_threshold=256",
		"env=heal infra_threshold=1000", "reward=weights reward_weights=correct=0 overlong_penalty=1 max_tokens=100",
		"reward=weights reward_weights=correct=0 kl_coef=0.1 kl_in=reward", "warmup_steps=10 max_steps=5"} {
		_, err := Load(Source{Overrides: strings.Fields(words)})
		require.NoError(t, err, words)
	}
	_, err := Load(Source{Overrides: []string{"env=hael", "max_turns=5"}})
	require.EqualError(t, err, `env: found "hael", expected none, heal, tools, program:FILE, openenv:URL or own; type env=heal`)
	_, err = Load(Source{Preset: "tiny_heal", Overrides: []string{"env=none"}})
	require.NoError(t, err, "the preset says how many turns there are")
	file := filepath.Join(t.TempDir(), "heal.yaml")
	require.NoError(t, os.WriteFile(file, []byte("version: 1\nextends: tiny\nenv: heal\nmax_turns: 4\n"), 0o644))
	_, err = Load(Source{File: file, Overrides: []string{"env=none"}})
	require.NoError(t, err, "so does the file")
	require.NoError(t, os.WriteFile(file, []byte("version: 1\nextends: tiny\nmax_turns: 4\n"), 0o644))
	_, err = Load(Source{File: file, Overrides: []string{"env=heal"}})
	require.NoError(t, err)
	_, err = Load(Source{File: file})
	require.EqualError(t, err, file+":3: max_turns: env=none does not use it; type env=heal or env=tools, or leave it out")
}
