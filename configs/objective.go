package configs

import "math"

// The checks of the settings about the objective.

func (k *checker) objective() {
	c := k.c
	k.refuse(c.CompletionsPerPrompt < 2, "completions_per_prompt",
		"completions_per_prompt: found %d, expected 2 or more: a completion is compared with others of its prompt; "+
			"type completions_per_prompt=16", c.CompletionsPerPrompt)
	k.refuse(c.PromptsPerStep > maxBatch, "prompts_per_step", "prompts_per_step: found %d, expected at most %d", c.PromptsPerStep, maxBatch)
	k.refuse(c.CompletionsPerPrompt > maxBatch, "completions_per_prompt",
		"completions_per_prompt: found %d, expected at most %d", c.CompletionsPerPrompt, maxBatch)
	k.refuse(c.Refill && c.MaxRefills == 0, "max_refills",
		"max_refills: refill=true needs at least one round; type max_refills=%d, or refill=false", usualRefills)
	k.refuse(!c.Refill && c.MaxRefills > 0, "max_refills", "max_refills: there are none without refill=true")
	const all = "refill: with %s=%s every group gives a gradient; type refill=false"
	k.refuse(c.Refill && c.batchwise(), "refill", all, "advantage", c.Advantage)
	k.refuse(c.Refill && !c.batchwise() && c.KLCoef > 0 && c.KLIn == "reward", "refill", all, "kl_in", c.KLIn)
}

// batchwise reports whether advantages are normalised over all tokens of the step.
func (c *Config) batchwise() bool { return c.Advantage == "batch" || c.Advantage == "batch_baseline" }

// clipping checks the bounds of ratios.
func (k *checker) clipping() {
	c := k.c
	if _, high := clipRange(c.Loss); high == 0 {
		const leave = "%s: loss=%s clips nothing; leave it out, or type loss=ppo"
		k.refuse(c.ClipLow != 0, "clip_low", leave, "clip_low", c.Loss)
		k.refuse(c.ClipHigh != 0, "clip_high", leave, "clip_high", c.Loss)
	} else {
		k.refuse(c.ClipLow > 1, "clip_low",
			"clip_low: found %s, expected at most 1, the ratio of an unchanged policy", formatNumber(c.ClipLow))
		k.refuse(c.ClipHigh < 1, "clip_high",
			"clip_high: found %s, expected at least 1, the ratio of an unchanged policy; it bounds the ratio itself, as in clip_high=1.2",
			formatNumber(c.ClipHigh))
	}
	k.refuse(c.ClipDual != 0 && c.Loss != "ppo", "clip_dual", "clip_dual is for loss=ppo; leave it out, or type loss=ppo")
	k.refuse(c.ClipDual != 0 && c.ClipDual <= c.ClipHigh, "clip_dual",
		"clip_dual: found %s, expected a ratio above clip_high, which is %s; type clip_dual=3, or clip_dual=0",
		formatNumber(c.ClipDual), formatNumber(c.ClipHigh))
	k.refuse(c.TIS == "none" && c.TISCap != 0, "tis_cap", "tis_cap: tis=none corrects nothing; leave it out, or type tis=token")
	k.refuse(c.TIS != "none" && c.TISCap == 0, "tis_cap", "tis_cap: tis=%s needs one; type tis_cap=%s", c.TIS, formatNumber(usualCap))
}

// divergence checks the KL penalty.
func (k *checker) divergence() {
	c, d := k.c, Defaults()
	const none = "%s: kl_coef=0 has no KL penalty; leave it out, or type kl_coef=0.001"
	k.refuse(c.KLCoef == 0 && c.KLIn == d.KLIn && c.KLEstimator != d.KLEstimator, "kl_estimator", none, "kl_estimator")
	k.refuse(c.KLCoef == 0 && c.KLIn != d.KLIn, "kl_in", none, "kl_in")
	k.refuse(c.KLCoef > 0 && c.Train == "full", "kl_coef",
		"kl_coef: the reference is the model without its adapter, and train=full has none; type kl_coef=0, or train=lora")
	k.refuse(c.KLCoef > 0 && c.KLIn == "loss" && c.KLEstimator == "k1", "kl_estimator",
		"kl_estimator: the gradient of k1 is 0 on average, so as part of the loss it is noise; type kl_estimator=k3, or kl_in=reward")
}

// shaping checks how rewards are shaped.
func (k *checker) shaping() {
	c := k.c
	k.refuse(c.OverlongPenalty == 0 && c.OverlongBuffer > 0, "overlong_buffer",
		"overlong_buffer: overlong_penalty=0 has no penalty; leave it out, or type overlong_penalty=1")
	k.refuse(c.OverlongPenalty > 0 && (c.OverlongBuffer < 1 || c.OverlongBuffer > c.MaxTokens), "overlong_buffer",
		"overlong_buffer: found %d, expected 1 to max_tokens, which is %d; type overlong_buffer=%d",
		c.OverlongBuffer, c.MaxTokens, usualBuffer(c.MaxTokens))
	k.refuse(c.OverlongPenalty > 0 && c.OnTruncated == "mask", "overlong_penalty",
		"overlong_penalty: on_truncated=mask leaves out the penalised completions; type on_truncated=grade, or overlong_penalty=0")
}

// leastScale is the smallest useful scale of anything that is trained on. Below it, updates would be lost in single precision, and
// gradients smaller than adam_eps.
const leastScale = 1e-12

// moves refuses values that are not 0 but so small that nothing would be learned, silently.
func (k *checker) moves() {
	c := k.c
	for _, n := range []struct {
		key   string
		value float64
		zero  string
	}{
		{"learning_rate", c.LearningRate, "0 (nothing is learned) or "},
		{"grad_clip_norm", c.GradClipNorm, "0 (off) or "},
		{"advantage_clip", c.AdvantageClip, "0 (off) or "},
		{"reward_clip", c.RewardClip, "0 (off) or "},
		{"dpo_beta", c.DPOBeta, ""},
	} {
		k.refuse(n.value > 0 && n.value < leastScale, n.key, "%s: found %s, expected %sat least %s: the policy would never move; %s",
			n.key, formatNumber(n.value), n.zero, formatNumber(leastScale), k.usual(n.key))
	}
	most := c.LearningRate / leastScale // with a larger adam_eps, a gradient of 1 moves its weight by less than leastScale
	k.refuse(c.LearningRate >= leastScale && c.AdamEps > most && c.AdamEps <= math.MaxFloat32, "adam_eps",
		"adam_eps: found %s, expected at most %s with learning_rate=%s: the policy would never move; %s",
		formatNumber(c.AdamEps), formatNumber(most), formatNumber(c.LearningRate), k.usual("adam_eps"))
}

// schedule checks the learning rate schedule.
func (k *checker) schedule() {
	c := k.c
	if c.Schedule == "constant" {
		k.refuse(c.SchedulerTotalSteps > 0, "scheduler_total_steps",
			"scheduler_total_steps: schedule=constant does not decay; type schedule=linear or cosine, or leave it out")
		return
	}
	k.refuse(c.SchedulerTotalSteps == 0 && !c.Warmup(), "schedule",
		"schedule: %s needs the number of steps over which it decays; type scheduler_total_steps=%s", c.Schedule, k.steps())
	k.refuse(c.SchedulerTotalSteps > 0 && c.WarmupSteps >= c.SchedulerTotalSteps, "warmup_steps",
		"warmup_steps: found %d, expected less than scheduler_total_steps, which is %d", c.WarmupSteps, c.SchedulerTotalSteps)
	k.refuse(c.SchedulerTotalSteps > 0 && c.MaxSteps > c.SchedulerTotalSteps, "max_steps",
		"max_steps: found %d, but the learning rate is 0 after scheduler_total_steps, which is %d; type scheduler_total_steps=%d",
		c.MaxSteps, c.SchedulerTotalSteps, c.MaxSteps)
}

// alpha checks lora_alpha/lora_rank, the scale of an adapter: not so small that it has no effect, and not so large that it drowns
// the model.
func (k *checker) alpha() {
	alpha, rank := k.c.LoRAAlpha, float64(max(k.c.LoRARank, 1))
	k.refuse(!(alpha > 0 && alpha <= math.MaxFloat32), "lora_alpha", "lora_alpha: found %s, expected %s; %s", formatNumber(alpha),
		bounded("a number above 0", alpha, math.MaxFloat32), k.usual("lora_alpha"))
	k.refuse(alpha < leastScale*rank, "lora_alpha",
		"lora_alpha: found %s, expected at least %s with lora_rank=%d: the policy would never move; %s",
		formatNumber(alpha), formatNumber(leastScale*rank), k.c.LoRARank, k.usual("lora_alpha"))
	k.refuse(alpha > rank/leastScale, "lora_alpha",
		"lora_alpha: found %s, expected at most %s with lora_rank=%d: one step would destroy the model; %s",
		formatNumber(alpha), formatNumber(rank/leastScale), k.c.LoRARank, k.usual("lora_alpha"))
}
