package configs

import "cmp"

// follow adjusts settings that depend on another one when a layer changed that and does not name them. So train=full
// needs no word about the adapter that it replaces, and a new data set is not evaluated on the test problems of the old
// one unless the user says so.
func (c *Config) follow(before *Config, named func(key string) bool) {
	c.followMethod(before, named)
	d := Defaults()
	if c.Train != before.Train {
		if c.Train == "full" {
			d.LoRARank, d.LoRAAlpha, d.LoRATargets = 0, 0, []string{}
		}
		inherit(&c.LoRARank, d.LoRARank, named("lora_rank"))
		inherit(&c.LoRAAlpha, d.LoRAAlpha, named("lora_alpha"))
		inherit(&c.LoRATargets, d.LoRATargets, named("lora_targets"))
	}
	if c.Data != before.Data {
		inherit(&c.TestData, "", named("test_data"))
		inherit(&c.ExpectedDatasetHash, "", named("expected_dataset_hash"))
		if c.TestData == "" && !c.Warmup() {
			inherit(&c.EvalEvery, -1, named("eval_every"))
		}
	}
	c.followObjective(before, named)
	if c.Refill != before.Refill {
		rounds := 0
		if c.Refill {
			rounds = usualRefills
		}
		inherit(&c.MaxRefills, rounds, named("max_refills"))
	}
	if c.Schedule == "constant" && before.Schedule != "constant" {
		inherit(&c.SchedulerTotalSteps, 0, named("scheduler_total_steps"))
	}
	if c.Reward != before.Reward {
		if !c.coefficient() {
			d.FormatCoef = 0
		}
		inherit(&c.FormatCoef, d.FormatCoef, named("format_coef"))
		inherit(&c.RewardWeights, "", named("reward_weights"))
		inherit(&c.RewardFile, "", named("reward_file"))
		inherit(&c.JudgeURL, "", named("judge_url"))
	}
	if c.JudgeURL == "" && before.JudgeURL != "" {
		for key, text := range map[string]*string{"judge_model": &c.JudgeModel, "judge_prompt": &c.JudgePrompt, "judge_score": &c.JudgeScore} {
			inherit(text, "", named(key))
		}
	}
	if c.RewardFile == "" && before.RewardFile != "" {
		inherit(&c.RewardPython, "", named("reward_python"))
	}
	if c.Comparator != before.Comparator {
		tolerance := 0.0
		if c.Comparator == "tolerant" {
			tolerance = usualTolerance
		}
		inherit(&c.Tolerance, tolerance, named("tolerance"))
	}
	if c.Sandbox != before.Sandbox && !c.remote() {
		inherit(&c.SandboxURL, "", named("sandbox_url"))
	}
	c.followEvaluation(before, named)
}

// followEvaluation is follow for evaluations.
func (c *Config) followEvaluation(before *Config, named func(key string) bool) {
	if c.EvalSamples != before.EvalSamples {
		inherit(&c.EvalK, max(0, min(cmp.Or(c.EvalK, Defaults().EvalK), c.EvalSamples)), named("eval_k"))
	}
	if c.EvalEvery < 0 && before.EvalEvery > 0 {
		inherit(&c.KeepBest, 0, named("keep_best"))
	}
}

// followObjective is follow for the objective.
func (c *Config) followObjective(before *Config, named func(key string) bool) {
	d := Defaults()
	if c.Loss != before.Loss {
		low, high := clipRange(c.Loss)
		inherit(&c.ClipLow, low, named("clip_low"))
		inherit(&c.ClipHigh, high, named("clip_high"))
	}
	if c.Loss != "ppo" && before.Loss == "ppo" {
		inherit(&c.ClipDual, 0, named("clip_dual"))
	}
	if c.TIS != before.TIS {
		most := 0.0
		if c.TIS != "none" {
			most = usualCap
		}
		inherit(&c.TISCap, most, named("tis_cap"))
	}
	if c.KLCoef == 0 && before.KLCoef > 0 {
		inherit(&c.KLIn, d.KLIn, named("kl_in"))
		inherit(&c.KLEstimator, d.KLEstimator, named("kl_estimator"))
	}
	if c.KLIn != before.KLIn {
		estimator := d.KLEstimator
		if c.KLIn == "reward" {
			estimator = "k1"
		}
		inherit(&c.KLEstimator, estimator, named("kl_estimator"))
	}
	if c.OverlongPenalty != before.OverlongPenalty || c.OverlongPenalty > 0 && c.MaxTokens != before.MaxTokens {
		buffer := 0
		if c.OverlongPenalty > 0 {
			buffer = usualBuffer(c.MaxTokens)
		}
		inherit(&c.OverlongBuffer, buffer, named("overlong_buffer"))
	}
}

const (
	usualRefills   = 4
	usualTolerance = 1e-6
	usualCap       = 2.0
)

// usualBuffer is the default length over which overlong_penalty rises.
func usualBuffer(maxTokens int) int { return max(1, maxTokens/5) }

func inherit[T any](p *T, v T, named bool) {
	if !named {
		*p = v
	}
}

// clipRange is the usual clip range of a loss; 0 and 0 if it has none.
func clipRange(loss string) (low, high float64) {
	switch loss {
	case "ppo":
		return 0.8, 1.2
	case "cispo":
		return 0, 4
	case "gspo", "gspo_token":
		return 0.9997, 1.0004
	}
	return 0, 0
}

// coefficient reports whether format_coef is part of the reward.
func (c *Config) coefficient() bool { return c.Reward == "correct" || c.Reward == "fraction" }

// remote reports whether programs may run on a server.
func (c *Config) remote() bool { return c.Sandbox == "fusion" || c.Sandbox == "auto" }
