package configs

import (
	"fmt"
	"math"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Validate reports all invalid and contradicting settings, one per line, with what to type.
func (c *Config) Validate() error {
	if c.Version == 0 {
		return badinput.Errorf("a Config of its own has no settings: make one by configs.Load, and change fields of that")
	}
	var mistakes []error
	for _, m := range c.mistakes(c) {
		mistakes = append(mistakes, badinput.Errorf("%s", m.text))
	}
	return join(mistakes)
}

// validate is Validate with the places that values are from.
func (l *loader) validate() error {
	var mistakes []error
	for _, m := range l.idler.beside(l.config.mistakes(&l.base), &l.config) {
		mistakes = append(mistakes, badinput.Errorf("%s%s", l.where[m.key], m.text))
	}
	return join(mistakes)
}

// mistake is what is wrong with a key's value.
type mistake struct{ key, text string }

// checker collects mistakes. Only the first mistake of a key is kept, as it is the cause.
type checker struct {
	c, base *Config // base is c before the file and the words
	found   []mistake
}

func (c *Config) mistakes(base *Config) []mistake {
	k := &checker{c: c, base: base}
	k.refuse(c.Order == "pairs", "order",
		"order: serial adds bf16 products in pairs, to the same bits; type order=serial, or on a card leave it out")
	k.values()
	k.numbers()
	k.policyAndData()
	k.chat()
	k.conversations()
	k.objective()
	k.clipping()
	k.divergence()
	k.shaping()
	k.moves()
	k.schedule()
	k.warmup()
	k.reward()
	k.judge()
	k.run()
	return k.found
}

// refuse adds a mistake if bad is true.
func (k *checker) refuse(bad bool, key, format string, args ...any) {
	if bad && !slices.ContainsFunc(k.found, func(m mistake) bool { return m.key == key }) {
		k.found = append(k.found, mistake{key, fmt.Sprintf(format, args...)})
	}
}

// values checks enumerations, and that texts are valid text.
func (k *checker) values() {
	for i, f := range fields() {
		texts := []string{}
		switch p := k.c.pointer(i).(type) {
		case *string:
			texts = append(texts, *p)
		case *[]string:
			texts = *p
			for j, s := range texts {
				k.refuse(slices.Contains(texts[:j], s), f.Key, "%s: %s is there twice; keep one", f.Key, s)
				k.refuse(s == "", f.Key, "%s: found an empty text in the list; leave it out", f.Key)
			}
		}
		for _, s := range texts {
			k.refuse(!utf8.ValidString(s), f.Key, "%s: found bytes that are not UTF-8", f.Key)
			if len(f.Values) > 0 && !slices.Contains(f.Values, s) {
				k.refuse(true, f.Key, "%s: found %q, expected %s", f.Key, s, or(f.Values))
			}
		}
	}
}

// numbers checks the ranges of numbers.
func (k *checker) numbers() {
	c := k.c
	k.refuse(c.Version != version, "version", "version: found %d, expected %d, the format that this program reads", c.Version, version)
	for _, n := range []struct {
		key   string
		value int
	}{
		{"prompts_per_step", c.PromptsPerStep}, {"max_tokens", c.MaxTokens},
		{"max_turns", c.MaxTurns}, {"num_iterations", c.NumIterations}, {"infra_threshold", c.InfraThreshold},
	} {
		k.refuse(n.value < 1, n.key, "%s: found %d, expected 1 or more; %s", n.key, n.value, k.usual(n.key))
	}
	for _, n := range []struct {
		key   string
		value int
	}{
		{"min_prompt_chars", c.MinPromptChars}, {"max_prompt_chars", c.MaxPromptChars},
		{"min_problem_tests", c.MinProblemTests}, {"max_problem_tests", c.MaxProblemTests},
		{"difficulty_patience", c.DifficultyPatience}, {"max_refills", c.MaxRefills}, {"warmup_steps", c.WarmupSteps},
		{"scheduler_total_steps", c.SchedulerTotalSteps}, {"max_tests", c.MaxTests}, {"public_tests", c.PublicTests},
		{"epochs", c.Epochs}, {"rows_per_step", c.RowsPerStep}, {"row_tokens", c.RowTokens},
		{"max_conversation_tokens", c.MaxConversationTokens}, {"overlong_buffer", c.OverlongBuffer},
		{"sandbox_slots", c.SandboxSlots},
		{"judge_budget", c.JudgeBudget}, {"judge_slots", c.JudgeSlots},
		{"eval_problems", c.EvalProblems}, {"eval_samples", c.EvalSamples}, {"eval_k", c.EvalK}, {"eval_top_k", c.EvalTopK},
		{"keep_last", c.KeepLast}, {"keep_best", c.KeepBest}, {"threads", c.Threads}, {"max_sequences", c.MaxSequences},
		{"token_budget", c.TokenBudget}, {"max_rows", c.MaxRows}, {"cache_memory", int(c.CacheMemory)},
	} {
		k.refuse(n.value < 0, n.key, "%s: found %d, expected 0 or more; %s", n.key, n.value, k.usual(n.key))
	}
	for _, n := range []struct {
		key   string
		value int
	}{{"max_sequences", c.MaxSequences}, {"token_budget", c.TokenBudget}, {"max_rows", c.MaxRows}, {"max_tokens", c.MaxTokens},
		{"max_turns", c.MaxTurns}, {"max_conversation_tokens", c.MaxConversationTokens}, {"sandbox_slots", c.SandboxSlots}} {
		k.refuse(n.value > math.MaxInt32, n.key, "%s: found %d, expected at most %d; %s", n.key, n.value, math.MaxInt32, k.usual(n.key))
	}
	all := c.PromptsPerStep * c.CompletionsPerPrompt
	k.refuse(all > maxBatch, "completions_per_prompt", "prompts_per_step × completions_per_prompt: found %d × %d, which make %d, "+
		"expected at most %d completions of a step; type a smaller completions_per_prompt",
		c.PromptsPerStep, c.CompletionsPerPrompt, all, maxBatch)
	k.refuse(c.EvalSamples > MostSamples, "eval_samples", "eval_samples: found %d, expected at most %d; %s", c.EvalSamples, MostSamples,
		k.usual("eval_samples"))
	k.refuse(c.Threads > MostThreads(), "threads", "threads: found %d, expected at most %d; type threads=%d, one a core",
		c.Threads, MostThreads(), runtime.NumCPU())
	steps := map[bool]string{false: "-1 to run until stopped", true: "100, or leave it out"}[c.Warmup()]
	for _, n := range []struct {
		key, off string
		value    int
	}{
		{"eval_every", "-1 to switch evaluation off", c.EvalEvery},
		{"save_every", "-1 to save at the end only", c.SaveEvery},
		{"max_steps", steps, c.MaxSteps},
	} {
		k.refuse(n.value == 0 || n.value < -1, n.key, "%s: found %d, expected 1 or more; type %s=%s", n.key, n.value, n.key, n.off)
	}
	k.realNumbers()
}

func (k *checker) realNumbers() {
	c, huge := k.c, math.MaxFloat32
	const small, coldest = math.SmallestNonzeroFloat32, 1e-6 // below coldest, logits divided by the temperature overflow single precision
	below1 := float64(math.Nextafter32(1, 0))
	for _, n := range []struct {
		key         string
		value       float64
		least, most float64
		expected    string
	}{
		{"difficulty_keep", c.DifficultyKeep, 0.01, 1, "0.01 to 1"},
		{"temperature", c.Temperature, coldest, huge, "a number of at least 1e-06"},
		{"turn_seconds", c.TurnSeconds, 0.001, 3600, "seconds, 0.001 to 3600"},
		{"conversation_seconds", c.ConversationSeconds, 0, 1e6, "seconds, 0 (any) or more"},
		{"turn_discount", c.TurnDiscount, 0, 1, "0 to 1"},
		{"clip_low", c.ClipLow, 0, huge, "0 or more"},
		{"clip_high", c.ClipHigh, 0, huge, "0 or more"},
		{"clip_dual", c.ClipDual, 0, huge, "0 (off) or a ratio above clip_high"},
		{"tis_cap", c.TISCap, 0, huge, "0 or more"},
		{"kl_coef", c.KLCoef, 0, huge, "0 (off) or more"},
		{"entropy_coef", c.EntropyCoef, 0, huge, "0 (off) or more"},
		{"advantage_clip", c.AdvantageClip, 0, huge, "0 (off) or more"},
		{"reward_clip", c.RewardClip, 0, huge, "0 (off) or more"},
		{"overlong_penalty", c.OverlongPenalty, 0, huge, "0 (off) or more"},
		{"held_out", c.HeldOut, 0, 0.9, "0 (none) to 0.9"},
		{"dpo_beta", c.DPOBeta, 0, huge, "a number above 0"},
		{"label_smoothing", c.LabelSmoothing, 0, 0.49, "0 (none) to 0.49"},
		{"learning_rate", c.LearningRate, 0, huge, "0 or more"},
		{"adam_beta1", c.AdamBeta1, 0, below1, "at least 0 and less than 1"},
		{"adam_beta2", c.AdamBeta2, 0, below1, "at least 0 and less than 1"},
		{"adam_eps", c.AdamEps, small, huge, "a small number above 0"},
		{"weight_decay", c.WeightDecay, 0, huge, "0 (off) or more"},
		{"grad_clip_norm", c.GradClipNorm, 0, huge, "0 (off) or more"},
		{"format_coef", c.FormatCoef, 0, huge, "0 or more"},
		{"reward_timeout", c.RewardTimeout, 0.001, 3600, "seconds, 0.001 to 3600"},
		{"tolerance", c.Tolerance, 0, huge, "0 or more"},
		{"judge_timeout", c.JudgeTimeout, 0, 3600, "seconds, up to 3600; 0 is 60"},
		{"eval_temperature", c.EvalTemperature, coldest, huge, "a number of at least 1e-06; the greedy completion needs no setting"},
		{"eval_top_p", c.EvalTopP, small, 1, "above 0 and up to 1"},
		{"eval_min_p", c.EvalMinP, 0, 1, "0 to 1"},
	} {
		k.refuse(!(n.value >= n.least && n.value <= n.most), n.key,
			"%s: found %s, expected %s; %s", n.key, formatNumber(n.value), bounded(n.expected, n.value, n.most), k.usual(n.key))
	}
}

// usual is a value to suggest for a key: that of the preset or the run, or else the default.
func (k *checker) usual(key string) string {
	i := slices.Index(keys(), key)
	before := k.base.text(i)
	if before == k.c.text(i) {
		before = fields()[i].Default
	}
	if before == "0" {
		before = k.c.leastValue(key)
	}
	return "type " + key + "=" + before
}

var deviceName = regexp.MustCompile(`^(auto|cpu|cuda:(0|[1-9][0-9]{0,3}))$`)

var sha256Hex = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)

func (k *checker) policyAndData() {
	c := k.c
	k.refuse(c.Model == "", "model", "model: found nothing; type model=DIR, model=owner/name or model=tiny")
	k.refuse(c.InitFrom != "" && c.Adapter != "", "adapter", "adapter: init_from=%s brings its own; leave one of them out", c.InitFrom)
	if c.Train == "full" {
		const leave = "%s: train=full has no adapter; leave it out, or type train=lora"
		k.refuse(c.LoRARank != 0, "lora_rank", leave, "lora_rank")
		k.refuse(c.LoRAAlpha != 0, "lora_alpha", leave, "lora_alpha")
		k.refuse(len(c.LoRATargets) > 0, "lora_targets", leave, "lora_targets")
		k.refuse(c.Adapter != "", "adapter", leave, "adapter")
		k.refuse(c.Serve != "", "serve", "serve: train=full changes the weights that would be served; leave it out, "+
			"and type grpo serve --run DIR beside the run")
		k.refuse(c.Quantize != "none", "quantize",
			"quantize: %s is for frozen weights, and with train=full they are trained; type quantize=none, or train=lora", c.Quantize)
	} else {
		k.refuse(c.LoRARank < 1 || c.LoRARank > 1<<16, "lora_rank",
			"lora_rank: found %d, expected 1 to %d; %s", c.LoRARank, 1<<16, k.usual("lora_rank"))
		k.alpha()
		k.refuse(len(c.LoRATargets) == 0, "lora_targets",
			"lora_targets: found none; leave it out to adapt all seven, or type lora_targets=q_proj,v_proj")
	}
	k.refuse(c.Data == "" && c.Warmup(), "data", "data: found nothing; type data=FILE or data=owner/name, with rows to train on")
	k.refuse(c.Data == "", "data", "data: found nothing; type data=FILE, data=owner/name or data=tiny")
	k.refuse(c.DataSplit == "", "data_split", "data_split: found nothing; type data_split=train or data_split=all")
	k.refuse(c.TestData != "" && c.TestSplit == "", "test_split", "test_split: found nothing; type test_split=test or test_split=all")
	other := "test_split=test"
	if c.DataSplit == "test" {
		other = "data_split=train"
	}
	k.refuse(c.TestData != "" && c.TestData == c.Data && c.TestSplit == c.DataSplit, "test_data",
		"test_data: these are the training problems; type %s, or test_data= and eval_every=-1", other)
	k.refuse(c.MaxPromptChars > 0 && c.MinPromptChars > c.MaxPromptChars, "min_prompt_chars",
		"min_prompt_chars: %d is above max_prompt_chars, which is %d: no problem would be left", c.MinPromptChars, c.MaxPromptChars)
	k.refuse(c.MaxProblemTests > 0 && c.MinProblemTests > c.MaxProblemTests, "min_problem_tests",
		"min_problem_tests: %d is above max_problem_tests, which is %d: no problem would be left", c.MinProblemTests, c.MaxProblemTests)
	k.refuse(c.TruncatePrompts && c.MaxPromptChars == 0, "truncate_prompts",
		"truncate_prompts needs a length; type max_prompt_chars=4000")
	k.refuse(c.RejectBlocklisted && c.Blocklist == "", "reject_blocklisted", "reject_blocklisted needs a list; type blocklist=FILE")
	k.refuse(c.ExpectedDatasetHash != "" && c.Data == "tiny", "expected_dataset_hash",
		"expected_dataset_hash: data=tiny is built in, and always the same; leave it out")
	k.refuse(c.CacheDataset && c.Data == "tiny" && c.TestData == "tiny", "cache_dataset",
		"cache_dataset: data=tiny is built in; leave it out")
	k.refuse(c.ExpectedDatasetHash != "" && !sha256Hex.MatchString(c.ExpectedDatasetHash), "expected_dataset_hash",
		"expected_dataset_hash: found %q, expected the 64 hexadecimal digits that 'grpo data fingerprint' prints", c.ExpectedDatasetHash)
}

// steps is a schedule length to suggest: the run's, if it has one.
func (k *checker) steps() string {
	if k.c.MaxSteps > 0 {
		return strconv.Itoa(k.c.MaxSteps)
	}
	return "100"
}

func (k *checker) reward() {
	c := k.c
	k.refuse(c.Reward == "weights" && c.RewardWeights == "", "reward_weights",
		"reward_weights: reward=weights needs them; type reward_weights=correct=1,format=0.1")
	k.refuse(c.Reward != "weights" && c.RewardWeights != "", "reward_weights",
		"reward_weights: reward=%s does not use them; type reward=weights, or leave them out", c.Reward)
	k.refuse(c.Reward == "custom" && c.RewardFile == "", "reward_file",
		"reward_file: reward=custom needs one; type reward_file=FILE, a Python file with compute_reward(completion, ground_truth)")
	k.refuse(c.coefficient() && c.RewardFile != "", "reward_file",
		"reward_file: reward=%s does not use it; type reward=custom, or a mix such as reward=weights reward_weights=correct=1,custom=0.5",
		c.Reward)
	k.refuse(c.RewardPython != "" && c.RewardFile == "", "reward_python",
		"reward_python runs a reward file; type reward_file=FILE, or leave it out")
	k.refuse(!c.coefficient() && c.FormatCoef != 0, "format_coef",
		"format_coef is for reward=correct and fraction; leave it out, or type reward=weights with format=%s among reward_weights",
		formatNumber(c.FormatCoef))
	k.refuse(c.Comparator == "exact" && c.Tolerance != 0, "tolerance", "tolerance: comparator=exact has none; type comparator=tolerant")
	k.refuse(c.Comparator == "tolerant" && c.Tolerance == 0, "tolerance",
		"tolerance: comparator=tolerant needs one; type tolerance=%s", formatNumber(usualTolerance))
	k.refuse(c.SandboxURL != "" && !c.remote(), "sandbox_url",
		"sandbox_url: sandbox=%s runs programs here; type sandbox=fusion, or leave it out", c.Sandbox)
	k.refuse(c.Python == "", "python", "python: found nothing; type python=python3")
	k.refuse(c.Deterministic && c.Sandbox == "fusion", "deterministic",
		"deterministic: with sandbox=fusion the verdicts come from another machine; type sandbox=local or deterministic=false")
}

func (k *checker) run() {
	c := k.c
	k.refuse(c.EvalEvery > 0 && c.TestData == "" && c.HeldOut == 0, "eval_every",
		"eval_every: there is no test_data to evaluate on; type test_data=FILE, or eval_every=-1")
	k.refuse(c.EvalK > c.EvalSamples, "eval_k", "eval_k: found %d, expected at most eval_samples, which is %d; "+
		"type eval_k=%d, or eval_samples=%d", c.EvalK, c.EvalSamples, c.EvalSamples, c.EvalK)
	k.refuse(c.EvalSamples > 0 && c.EvalK == 0, "eval_k",
		"eval_k: found 0, expected 1 to eval_samples, which is %d; type eval_k=%d, or eval_samples=0", c.EvalSamples, c.EvalSamples)
	instead := "keep_best=0"
	if c.TestData != "" || c.HeldOut > 0 {
		instead += " or eval_every=10"
	}
	k.refuse(c.EvalEvery < 0 && c.KeepBest > 0, "keep_best",
		"keep_best needs evaluations; type %s", instead)
	_, err := recordEvery(c.RecordRollouts)
	k.refuse(err != nil, "record_rollouts", "record_rollouts: found %q, expected all, none or a number of steps, 1 or more; "+
		"type record_rollouts=all", c.RecordRollouts)
	k.refuse(c.CompressRollouts && c.RecordRollouts == "none", "compress_rollouts",
		"compress_rollouts: record_rollouts=none keeps nothing to compress; leave one of them out")
	k.refuse(c.ServeKeys != "" && c.Serve == "" && c.Watch == "", "serve_keys",
		"serve_keys needs serve; type serve=127.0.0.1:8000, or leave it out")
	k.refuse(c.Train == "full" && c.Precision == "int16", "precision",
		"precision: int16 is for frozen weights of four bits, and with train=full they are trained; type precision=bf16 or precision=f32")
	k.refuse(!deviceName.MatchString(c.Device), "device", "device: found %q, expected auto, cpu or cuda:N, the number of a card", c.Device)
	k.refuse(c.Resume == "", "resume", "resume: found nothing; type resume=auto, resume=never or resume=DIR")
	for _, key := range c.AllowChange {
		k.refuse(!slices.Contains(changeable, key), "allow_change", "allow_change: found %q, expected %s", key, or(changeable))
	}
	k.refuse(c.InitFrom != "" && c.Resume != "auto" && c.Resume != "never", "init_from",
		"init_from: resume=%s names another checkpoint to start from; leave one of them out", c.Resume)
}
