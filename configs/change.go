package configs

import (
	"fmt"
	"reflect"
	"slices"
)

// guarded are the settings that make a run what it is: one that goes on must have those that it began with,
// unless allow_change names them.
var guarded = []string{"model", "adapter", "quantize", "data", "data_split", "data_sources", "test_data", "test_split", "answer_match",
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

// changeable are what allow_change may name: those, and the device, which may be another one but not take sums in
// another order.
var changeable = append(slices.Clone(guarded), "device")

// Change is a setting in which two configurations differ.
type Change struct {
	Key           string
	Before, After string // as YAML
	Guarded       bool   // a run that goes on may not change it unasked
}

// String is "key: before → after".
func (c Change) String() string { return fmt.Sprintf("%s: %s → %s", c.Key, c.Before, c.After) }

// Changed lists the settings in which two configurations differ.
func Changed(before, after *Config) (changes []Change) {
	for i, f := range fields() {
		if !reflect.DeepEqual(before.pointer(i), after.pointer(i)) {
			changes = append(changes, Change{f.Key, quoteField(before, i), quoteField(after, i), slices.Contains(guarded, f.Key)})
		}
	}
	return changes
}

// Setting is the value of a key that is known, for writing it down.
func (c *Config) Setting(key string) any {
	return reflect.ValueOf(c.pointer(slices.Index(keys(), key))).Elem().Interface()
}

// Allowed tells whether allow_change names a key.
func (c *Config) Allowed(key string) bool { return slices.Contains(c.AllowChange, key) }
