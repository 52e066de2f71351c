package configs

// follow gives settings that hang on another the values that suit it, when a layer changed that other
// and does not name them. So train=full needs no word about the adapter that it does away with, and a
// new data set is not evaluated on the test problems of the old one unless somebody says so.
func (c *Config) follow(before *Config, named func(key string) bool) {
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
		if c.TestData == "" {
			inherit(&c.EvalEvery, -1, named("eval_every"))
		}
	}
	if c.Loss != before.Loss {
		low, high := clipRange(c.Loss)
		inherit(&c.ClipLow, low, named("clip_low"))
		inherit(&c.ClipHigh, high, named("clip_high"))
	}
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
	if c.EvalEvery < 0 && before.EvalEvery > 0 {
		inherit(&c.KeepBest, 0, named("keep_best"))
	}
}

const (
	usualRefills   = 4
	usualTolerance = 1e-6
)

func inherit[T any](p *T, v T, named bool) {
	if !named {
		*p = v
	}
}

// clipRange is the usual one of a loss; 0 and 0 of one that clips nothing.
func clipRange(loss string) (low, high float64) {
	switch loss {
	case "ppo":
		return 0.8, 1.2
	case "cispo":
		return 0, 4
	}
	return 0, 0
}

// coefficient tells whether the reward is one that format_coef is part of.
func (c *Config) coefficient() bool { return c.Reward == "correct" || c.Reward == "fraction" }

// remote tells whether programs may go to a server.
func (c *Config) remote() bool { return c.Sandbox == "fusion" || c.Sandbox == "auto" }
