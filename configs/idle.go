package configs

import (
	"slices"
	"strconv"
	"strings"
)

// idleFinder finds settings without effect, given the others. They do no harm, and older runs have some: so they are refused only if
// the user has just typed them, or written them into a file.
type idleFinder struct {
	keys []string // set by the user
}

// given records the settings of a layer that the user wrote, which changed before to c. A layer with all settings was printed by a run.
func (k *idleFinder) given(l *layer, before, c *Config) {
	for _, s := range l.settings {
		i := slices.Index(keys(), s.key)
		if i >= 0 && before.text(i) != c.text(i) && c.whyIdle(s.key) != "" {
			k.keys = append(k.keys, s.key)
		}
	}
}

// beside adds a mistake for each of these settings that has no effect in the end.
func (k *idleFinder) beside(found []mistake, c *Config) []mistake {
	for _, key := range k.keys {
		why := c.whyIdle(key)
		if why != "" && !slices.ContainsFunc(found, func(m mistake) bool { return m.key == key }) {
			found = append(found, mistake{key, key + ": " + why})
		}
	}
	return found
}

// whyIdle says why a changed setting has no effect, and what to type; "" if it has one.
func (c *Config) whyIdle(key string) string {
	i := slices.Index(keys(), key)
	if c.text(i) == fields()[i].Default {
		return ""
	}
	switch key {
	case "difficulty_keep":
		if c.DifficultyPatience == 0 {
			return "difficulty_patience=0 gives every problem once an epoch; type difficulty_patience=3, or leave it out"
		}
	case "eval_temperature", "eval_top_k", "eval_top_p", "eval_min_p":
		if c.EvalSamples == 0 {
			return "with eval_samples=0 evaluation is only greedy; type eval_samples=4 eval_k=4, or leave it out"
		}
	case "infra_threshold":
		if c.InfraThreshold > infraWindow && c.Env == "none" {
			return "found " + c.text(i) + ", expected at most " + strconv.Itoa(infraWindow) + ", of as many completions; with that no run stops"
		}
	case "reward_file":
		if c.Reward == "weights" && !strings.Contains(c.RewardWeights, "custom") {
			return "no weight uses it; add custom=0.5 to reward_weights, or leave it out"
		}
	case "reward_weights":
		if c.rewardsAreZero() {
			return "all of them are 0, so every reward is 0; type reward_weights=correct=1,format=0.1"
		}
	}
	return c.whyIdleInConversations(key)
}

// infraWindow is the number of completions that infra_threshold refers to.
const infraWindow = 256

// whyIdleInConversations is idle for settings about conversations. A Go program's own environment may use any of them.
func (c *Config) whyIdleInConversations(key string) string {
	heal, tools, other := c.Env == "heal", c.Env == "tools", c.EnvProgram() != "" || c.EnvServer() != ""
	if c.Env != "none" && !heal && !tools && !other { // own, or an invalid value
		return ""
	}
	for _, s := range []struct {
		keys    string
		used    bool
		instead string
	}{
		{"max_turns max_conversation_tokens", heal || tools || other, "env=heal or env=tools"},
		{"turn_seconds", heal || tools || other, "env=tools"},
		{"turn_reward turn_discount", heal, "env=heal"},
		{"public_tests", heal || tools, "env=heal"},
		{"tools", tools, "env=tools"},
		{"openenv_reward", c.EnvServer() != "", "env=openenv:URL"},
	} {
		if slices.Contains(strings.Fields(s.keys), key) && !s.used {
			return "env=" + c.Env + " does not use it; type " + s.instead + ", or leave it out"
		}
	}
	if key == "turn_discount" && c.TurnReward != "discounted" {
		return "turn_reward=" + c.TurnReward + " does not use it; type turn_reward=discounted, or leave it out"
	}
	return ""
}

// rewardsAreZero reports whether all rewards are 0: no weights, and no penalties.
func (c *Config) rewardsAreZero() bool {
	if c.RewardWeights == "" || c.OverlongPenalty > 0 || c.KLCoef > 0 && c.KLIn == "reward" {
		return false
	}
	for _, item := range strings.Split(c.RewardWeights, ",") {
		_, value, _ := strings.Cut(item, "=")
		if v, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err != nil || v != 0 {
			return false
		}
	}
	return true
}
