package configs

import (
	"fmt"
	"reflect"
	"slices"
)

// definingKeys are the settings that define a run: when it is resumed they must be as before, unless allow_change names them.
var definingKeys = []string{"model", "adapter", "quantize", "data", "data_split", "data_sources", "test_data", "test_split", "answer_match",
	"prompt_template", "renderer", "chat_date", "chat_vars", "blocklist", "reject_blocklisted", "precision", "kv_cache_dtype",
	"adapter_precision", "order",
	"advantage", "advantage_clip", "positive_only", "loss", "clip_low", "clip_high", "clip_dual", "tis", "tis_cap", "kl_coef",
	"kl_estimator", "kl_in", "env", "max_turns",
	"max_conversation_tokens", "turn_reward", "turn_discount", "public_tests", "heal_template", "tools", "mcp", "openenv_action",
	"openenv_template",
	"entropy_coef", "reduction", "method", "rows_per_step", "row_tokens", "learn_turns", "held_out", "dpo_beta", "dpo_loss",
	"label_smoothing",
	"reward", "reward_weights", "format_coef", "reward_clip", "overlong_penalty", "overlong_buffer", "reward_file",
	"judge_model", "judge_prompt", "judge_score", "seed"}

// changeable are the settings that allow_change may name: these, and the device, if it has the same summation order.
var changeable = append(slices.Clone(definingKeys), "device")

// Change is a setting in which two configurations differ.
type Change struct {
	Key           string
	Before, After string // as YAML
	Guarded       bool   // a resumed run may not change it without allow_change
}

// String is "key: before → after".
func (c Change) String() string { return fmt.Sprintf("%s: %s → %s", c.Key, c.Before, c.After) }

// Changed lists the settings in which two configurations differ.
func Changed(before, after *Config) (changes []Change) {
	for i, f := range fields() {
		if !reflect.DeepEqual(before.pointer(i), after.pointer(i)) {
			changes = append(changes, Change{f.Key, quoteField(before, i), quoteField(after, i), slices.Contains(definingKeys, f.Key)})
		}
	}
	return changes
}

// Setting is the value of an existing key, for recording it.
func (c *Config) Setting(key string) any {
	return reflect.ValueOf(c.pointer(slices.Index(keys(), key))).Elem().Interface()
}

// Allowed reports whether allow_change names a key.
func (c *Config) Allowed(key string) bool { return slices.Contains(c.AllowChange, key) }
