package configs

import (
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// evaluationKeys are the settings that an evaluation uses: about precision, prompts, sampling, the environment, the reward, the
// problems, and determinism.
var evaluationKeys = []string{"precision", "order", "kv_cache_dtype", "adapter_precision", "quantize",
	"answer_match", "prompt_template", "renderer", "chat_date", "chat_vars", "blocklist", "reject_blocklisted", "stop",
	"env", "max_turns", "max_conversation_tokens", "turn_seconds", "conversation_seconds", "turn_reward", "turn_discount", "public_tests",
	"heal_template", "tools", "mcp", "openenv_action", "openenv_template", "openenv_reward",
	"reward", "reward_weights", "format_coef", "reward_file", "reward_python", "judge_url", "judge_model", "judge_prompt", "judge_score",
	"judge_budget", "judge_slots", "judge_timeout", "reward_timeout", "max_tests", "on_truncated", "comparator", "tolerance",
	"sandbox", "sandbox_slots", "sandbox_url", "python", "infra_threshold", "eval_top_k", "eval_top_p", "eval_min_p",
	"deterministic", "threads", "pipeline", "cache_memory", "max_sequences", "token_budget", "speculate", "max_rows"}

// CheckEvaluation refuses settings on the command line that an evaluation does not use. flags maps settings to flags of the verb.
func CheckEvaluation(words []string, flags map[string]string) error {
	var mistakes []error
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		if flag, ok := flags[key]; ok {
			mistakes = append(mistakes, badinput.Errorf("%s is a flag here; type %s %s", key, flag, value))
		} else if Key(key) == key && !slices.Contains(evaluationKeys, key) {
			mistakes = append(mistakes, badinput.Errorf("%s is for training, and grpo eval does not use it; leave it out", key))
		}
	}
	return join(mistakes)
}
