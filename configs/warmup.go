package configs

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Methods of a warm-up.
const (
	SFT = "sft"
	DPO = "dpo"
)

// Warmup reports whether the run trains on rows, not on completions that it samples.
func (c *Config) Warmup() bool { return c.Method != "grpo" }

// Verb is the command that resumes the run.
func (c *Config) Verb() string {
	if c.Warmup() {
		return "grpo " + c.Method
	}
	return "grpo"
}

// StepsOf is the last step of a run, given the number of rows or problems; -1: it has none.
func (c *Config) StepsOf(rows int) int {
	if c.Epochs == 0 || c.RowsPerStep < 1 {
		return c.MaxSteps
	}
	steps := (c.Epochs*rows + c.RowsPerStep - 1) / c.RowsPerStep
	if c.MaxSteps >= 0 {
		return min(steps, c.MaxSteps)
	}
	return steps
}

// Rise is a note about a run that ends while its learning rate is still rising; "" otherwise.
func (c *Config) Rise(steps int) string {
	if steps < 1 || c.WarmupSteps <= steps {
		return ""
	}
	return fmt.Sprintf("; the learning rate rises to the end (warmup_steps=%d) and comes to %.2g, not to %.2g",
		c.WarmupSteps, c.LearningRate*float64(steps)/float64(c.WarmupSteps), c.LearningRate)
}

// usualRows is rows_per_step, usualBeta dpo_beta, and usualShare held_out.
const (
	usualRows  = 16
	usualBeta  = 0.1
	usualShare = 0.05
)

// leastValue is a value to suggest for a key whose default is 0, if a warm-up does not allow 0.
func (c *Config) leastValue(key string) string {
	switch {
	case c.Warmup() && key == "rows_per_step":
		return fmt.Sprint(usualRows)
	case c.Warmup() && key == "epochs":
		return "1"
	case c.Method == DPO && key == "dpo_beta":
		return fmt.Sprint(usualBeta)
	}
	return "0"
}

// followMethod is follow for the method: presets are made for GRPO, and a warm-up takes only the model from them.
func (c *Config) followMethod(before *Config, named func(key string) bool) {
	if !c.Warmup() || c.Method == before.Method && c.HeldOut == before.HeldOut {
		return
	}
	if c.Method != before.Method {
		c.becomeWarmup(named)
	}
	if c.TestData == "" && c.HeldOut == 0 {
		inherit(&c.EvalEvery, -1, named("eval_every"))
		inherit(&c.KeepBest, 0, named("keep_best"))
	}
}

// becomeWarmup sets a warm-up's defaults, in place of what a preset says.
func (c *Config) becomeWarmup(named func(key string) bool) {
	d := Defaults()
	loss, reduction, rate := "cross_entropy", "token_mean", 2e-4
	if c.Method == DPO {
		reduction, rate = "sequence_sum", 2e-5
		inherit(&c.DPOBeta, usualBeta, named("dpo_beta"))
	}
	if c.Train == "full" {
		rate /= 20
	}
	c.Loss, c.Advantage, c.TIS, c.KLCoef, c.EntropyCoef, c.AdvantageClip, c.PositiveOnly = loss, d.Advantage, d.TIS, 0, 0, 0, false
	c.OverlongPenalty, c.OverlongBuffer, c.Refill, c.MaxRefills, c.NumIterations = 0, 0, false, 0, 1
	c.HealTemplate, c.MCP, c.OpenEnvAction, c.OpenEnvTemplate, c.ConversationSeconds = "", "", "", "", 0
	c.Env, c.Temperature, c.RecordRollouts, c.Pipeline, c.ClipDual = "none", 1, "none", "off", 0
	inherit(&c.Reduction, reduction, named("reduction"))
	inherit(&c.LearningRate, rate, named("learning_rate"))
	inherit(&c.AdamEps, 1e-8, named("adam_eps"))
	inherit(&c.AdamBeta2, 0.999, named("adam_beta2"))
	inherit(&c.GradClipNorm, 1, named("grad_clip_norm"))
	inherit(&c.Schedule, "linear", named("schedule"))
	inherit(&c.SchedulerTotalSteps, 0, named("scheduler_total_steps"))
	inherit(&c.Data, "", named("data"))
	inherit(&c.TestData, "", named("test_data"))
	inherit(&c.RowsPerStep, usualRows, named("rows_per_step"))
	inherit(&c.MaxSteps, -1, named("max_steps"))
	inherit(&c.EvalProblems, 0, named("eval_problems"))
	if !named("max_steps") {
		inherit(&c.Epochs, 1, named("epochs"))
	}
	if c.TestData == "" {
		inherit(&c.HeldOut, usualShare, named("held_out"))
	}
}

// warmup checks the settings of a warm-up, and that no other run has them.
func (k *checker) warmup() {
	c, d := k.c, Defaults()
	if !c.Warmup() {
		for _, s := range []struct {
			key   string
			named bool
		}{
			{"epochs", c.Epochs != 0}, {"rows_per_step", c.RowsPerStep != 0}, {"row_tokens", c.RowTokens != 0},
			{"learn_turns", c.LearnTurns != d.LearnTurns}, {"held_out", c.HeldOut != 0}, {"dpo_beta", c.DPOBeta != 0},
			{"dpo_loss", c.DPOLoss != d.DPOLoss}, {"label_smoothing", c.LabelSmoothing != 0},
		} {
			k.refuse(s.named, s.key, "%s is for a warm-up; type grpo sft or grpo dpo, or leave it out", s.key)
		}
		return
	}
	const other = "%s: it is for grpo %s; leave it out"
	k.refuse(c.RowsPerStep < 1, "rows_per_step",
		"rows_per_step: found %d, expected 1 or more; type rows_per_step=%d", c.RowsPerStep, usualRows)
	k.refuse(c.RowsPerStep > maxBatch, "rows_per_step", "rows_per_step: found %d, expected at most %d", c.RowsPerStep, maxBatch)
	k.refuse(c.Epochs > math.MaxInt32, "epochs", "epochs: found %d, expected at most %d; type epochs=1", c.Epochs, math.MaxInt32)
	k.refuse(c.RowTokens == 1, "row_tokens", "row_tokens: found 1, expected 2 or more, or 0: a token is predicted from others")
	k.refuse(c.Epochs == 0 && c.MaxSteps < 0, "epochs", "epochs: found 0, and max_steps sets no end either; type epochs=1, or max_steps=100")
	k.refuse(c.TestData != "" && c.HeldOut > 0, "held_out", "held_out: test_data=%s has the held-out rows; leave one of them out", c.TestData)
	k.refuse(c.Data == "tiny" || c.TestData == "tiny", "data",
		"data: tiny has problems for grpo; a warm-up needs rows of your own; type data=FILE")
	k.refuse(c.Serve != "", "serve", "serve is only for grpo; leave it out, and type grpo serve --run DIR during the run")
	k.refuse(c.CacheDataset, "cache_dataset", "cache_dataset is only for grpo; leave it out")
	if c.Method == SFT {
		k.refuse(c.DPOBeta != 0, "dpo_beta", other, "dpo_beta", DPO)
		k.refuse(c.DPOLoss != d.DPOLoss, "dpo_loss", other, "dpo_loss", DPO)
		k.refuse(c.LabelSmoothing != 0, "label_smoothing", other, "label_smoothing", DPO)
		return
	}
	k.refuse(c.LearnTurns != d.LearnTurns, "learn_turns", other, "learn_turns", SFT)
	k.refuse(c.Reduction != "sequence_sum", "reduction", "reduction: grpo dpo takes the mean over its pairs; leave it out")
	k.refuse(!(c.DPOBeta > 0), "dpo_beta", "dpo_beta: found %s, expected a number above 0; type dpo_beta=0.1", formatNumber(c.DPOBeta))
	k.refuse(c.LabelSmoothing > 0 && c.DPOLoss != "sigmoid", "label_smoothing",
		"label_smoothing is for dpo_loss=sigmoid; leave one of them out")
}

// warmupKeys are the settings that warm-ups use.
var warmupKeys = []string{"model", "init_from", "adapter", "train", "lora_rank", "lora_alpha", "lora_targets", "precision", "order",
	"kv_cache_dtype", "adapter_precision", "quantize", "data", "data_split", "test_data", "test_split", "prompt_template",
	"renderer", "chat_date", "chat_vars", "expected_dataset_hash", "method", "epochs", "rows_per_step", "row_tokens", "learn_turns",
	"held_out", "dpo_beta", "dpo_loss", "label_smoothing", "reduction", "learning_rate", "schedule", "warmup_steps",
	"scheduler_total_steps", "adam_beta1", "adam_beta2", "adam_eps", "weight_decay", "grad_clip_norm", "eval_every",
	"eval_problems", "run_dir", "resume", "allow_change", "max_steps", "save_every", "keep_last", "keep_best", "tensorboard",
	"mlflow", "seed", "deterministic", "device", "threads", "max_rows", "share_prefixes", "recompute"}

// otherTrainersKeys are the names in other trainers for settings of a warm-up.
var otherTrainersKeys = map[string]string{"batch_size": "rows_per_step", "beta": "dpo_beta", "max_length": "row_tokens",
	"max_seq_length": "row_tokens"}

// CheckWords refuses settings on the command line that a warm-up does not use.
func CheckWords(method string, words []string) error {
	var mistakes []error
	for _, word := range words {
		key, _, _ := strings.Cut(word, "=")
		if instead := otherTrainersKeys[key]; instead != "" && (key != "beta" || method == DPO) {
			mistakes = append(mistakes, badinput.Errorf("%s: it is %s here; type %s=NUMBER", key, instead, instead))
		} else if key == "method" {
			mistakes = append(mistakes, badinput.Errorf("method: the command sets it; leave it out"))
		} else if slices.Contains(keys(), key) && !slices.Contains(warmupKeys, key) {
			mistakes = append(mistakes, badinput.Errorf("%s is for grpo, and grpo %s does not use it; leave it out", key, method))
		}
	}
	return join(mistakes)
}
