package configs

// Config is everything that decides a run. The comment of a field is its help text, and a comment by
// itself opens a section: Describe, Marshal and docs/config.md read them here, and those of the structs inside
// in machine.go. Where two fields hang on each other, see follow.
type Config struct {
	// The version of this format.
	Version int `json:"version"`

	// Model

	// A Hugging Face model directory, a name on the Hub (owner/name or owner/name@revision), or tiny, the built-in model.
	Model string `json:"model"`
	// A checkpoint of another run, or its directory, to fork from: weights, moments, data cursor and step; of a warm-up the weights alone.
	InitFrom string `json:"init_from"`
	// A PEFT adapter directory to start from, with a fresh optimizer. Its rank, alpha and targets must be the ones given here.
	Adapter string `json:"adapter"`
	// What is trained: a LoRA adapter, or all weights.
	Train string `json:"train" enum:"lora full"`
	// Rank of the adapter.
	LoRARank int `json:"lora_rank"`
	// The adapter's output is scaled by lora_alpha / lora_rank.
	LoRAAlpha float64 `json:"lora_alpha"`
	// The linear layers that get an adapter.
	LoRATargets []string `json:"lora_targets" enum:"q_proj k_proj v_proj o_proj gate_proj up_proj down_proj"`
	// What activations are rounded to before they are multiplied by a bf16 weight of the model, in sampling and training alike. f32: not
	// rounded. bf16: twice as fast on processors with instructions for it, and the format of a card's tensor cores. int16: for four-bit
	// weights whose rows are whole blocks of 64, to 15-bit integers, which a processor multiplies faster; other weights as with f32. auto:
	// bf16 on a card, f32 on the processor. Sums are always f32, and sampler and trainer agree to the bit. On a card, bf16 also halves the
	// memory of activations saved for the backward pass; scores do not change. bf16 also rounds weights that are f32 or f16 in the files.
	// With train=full it rounds them in products alone: the trained and saved weights are always f32, and auto is f32.
	Precision string `json:"precision" enum:"auto f32 bf16 int16"`
	// The order in which products are summed, in sampling and training alike. serial: one by one. tiles: as a processor's tile unit does.
	// auto: tiles if the machine has a tile unit when the run begins, else serial. Every processor can compute both, to the same bits, and
	// a run keeps its order. A card has its own order and takes auto alone.
	Order string `json:"order" enum:"auto serial tiles"`
	// What keys and values are rounded to, in sampling and training alike. f32: not rounded. bf16: half the memory and half the time to
	// read. auto: as precision on a card and with order=tiles, else f32.
	KVCacheDtype string `json:"kv_cache_dtype" enum:"auto f32 bf16"`
	// What the adapter's matrices and their inputs are rounded to in products, in sampling and training alike. f32: not rounded. bf16.
	// auto: bf16 if precision=bf16 and order=tiles, because a tile unit multiplies bf16 alone, else f32. The trained and saved adapter is
	// always f32, and so are sums.
	AdapterPrecision string `json:"adapter_precision" enum:"auto f32 bf16"`
	// How frozen weights are stored. none: as in the model's files. nf4: those of the layers in four bits each, the same bits as in the
	// model that 'grpo quantize' writes. The model must be in bf16, or in four bits already.
	Quantize string `json:"quantize" enum:"none nf4"`

	// Data

	// Problems to train on: a JSON Lines or Parquet file, a folder of them, owner/name or owner/name@revision on the Hub, or tiny.
	Data string `json:"data"`
	// The part of the data to train on: train, test, validation or all.
	DataSplit string `json:"data_split"`
	// Train on these sources alone, by the names that 'grpo data inspect' lists. Empty: all.
	DataSources []string `json:"data_sources"`
	// Held-out problems for evaluation, named as for data. Changing data empties it.
	TestData string `json:"test_data"`
	// The part of test_data to evaluate on.
	TestSplit string `json:"test_split"`
	// How the "answer" of rows without tests and "match" is compared. row: such rows are refused.
	AnswerMatch string `json:"answer_match" enum:"row exact regex json_schema math"`
	// A file with the wording of the prompt, as a Go text/template. Empty: the built-in wording.
	PromptTemplate string `json:"prompt_template"`
	// How a conversation becomes tokens. auto: by the chat template among the model's files; plain: the text as it is, for base models that
	// continue a text.
	Renderer string `json:"renderer" enum:"auto plain qwen3_instruct qwen3 qwen3_disable_thinking"`
	// The date that the chat template takes for today. Empty: none; a template that asks for it fails.
	ChatDate string `json:"chat_date"`
	// Variables of the model's chat template, as a JSON object of names and values. Empty: none.
	ChatVars string `json:"chat_vars"`
	// Leave out problems of data whose statement has fewer characters. 0: none.
	MinPromptChars int `json:"min_prompt_chars"`
	// Leave out problems of data whose statement has more characters. 0: none.
	MaxPromptChars int `json:"max_prompt_chars"`
	// Cut a statement at max_prompt_chars instead of leaving its problem out.
	TruncatePrompts bool `json:"truncate_prompts"`
	// Leave out problems with fewer tests. 0: none.
	MinProblemTests int `json:"min_problem_tests"`
	// Leave out problems with more tests. 0: none. To run fewer of them, see max_tests.
	MaxProblemTests int `json:"max_problem_tests"`
	// A problem that all completions solved, or none did, on this many visits in a row is dealt less often afterwards. 0: always once an
	// epoch.
	DifficultyPatience int `json:"difficulty_patience"`
	// The probability that such a problem is dealt all the same, from 0.01 to 1.
	DifficultyKeep float64 `json:"difficulty_keep"`
	// A file of strings, one a line, that no completion may contain; completions that do are counted.
	Blocklist string `json:"blocklist"`
	// A completion with a blocked string scores 0, whatever its tests say.
	RejectBlocklisted bool `json:"reject_blocklisted"`
	// Keep a copy of the data in the run directory and read that copy, so that the run does not depend on its source.
	CacheDataset bool `json:"cache_dataset"`
	// The SHA-256 that the data must have, as 'grpo data fingerprint' prints it. Empty: any.
	ExpectedDatasetHash string `json:"expected_dataset_hash"`

	// Sampling

	// Problems of a step. Also accepted: group_size (problems) with batch_size (completions).
	PromptsPerStep int `json:"prompts_per_step"`
	// Completions of each problem: the group whose rewards are compared.
	CompletionsPerPrompt int `json:"completions_per_prompt"`
	// The longest completion, in tokens.
	MaxTokens int `json:"max_tokens"`
	// The logits are divided by it; above 0.
	Temperature float64 `json:"temperature"`
	// Strings that end a completion, besides the model's own end of turn.
	Stop []string `json:"stop"`

	// Conversations

	// What answers the model: nothing (none); heal, which reports a failed test; tools; program:FILE; openenv:URL; own, that of a Go
	// program.
	Env string `json:"env"`
	// The most turns of the model in a conversation.
	MaxTurns int `json:"max_turns"`
	// The most tokens of a conversation after its prompt, of all speakers. 0: max_turns times max_tokens.
	MaxConversationTokens int `json:"max_conversation_tokens"`
	// Seconds for an answer: processor time for a tool call, wall-clock time for a program of yours or a server.
	TurnSeconds float64 `json:"turn_seconds"`
	// Wall-clock seconds for all answers of a conversation, waiting included; a conversation that takes longer is left out. 0: no limit.
	ConversationSeconds float64 `json:"conversation_seconds"`
	// The reward of a conversation with env=heal: its last turn's, its best, or the last times turn_discount for each earlier turn.
	TurnReward string `json:"turn_reward" enum:"last best discounted"`
	// The factor of turn_reward=discounted, from 0 to 1.
	TurnDiscount float64 `json:"turn_discount"`
	// In problems that mark no test as public, this many tests, from the first, may be shown to the model by env=heal and tools.
	PublicTests int `json:"public_tests"`
	// A file with the wording of env=heal, as a Go text/template. Empty: the built-in wording.
	HealTemplate string `json:"heal_template"`
	// Which of python, run_tests and trace env=tools offers; with mcp it may be empty, [].
	Tools []string `json:"tools" enum:"python run_tests trace"`
	// A file that names MCP servers, {"mcpServers": {…}} as other programs read it; env=tools offers their tools too. Empty: none.
	MCP string `json:"mcp"`
	// With env=openenv:URL, the action's field that takes the model's text; json: the text is the action. Empty: by the server's schema.
	OpenEnvAction string `json:"openenv_action"`
	// A file with the wording of an observation, a Go text/template of its fields. Empty: the fields that are not empty.
	OpenEnvTemplate string `json:"openenv_template"`
	// The reward of a conversation with env=openenv:URL: the sum of its turns' rewards, the last or the best.
	OpenEnvReward string `json:"openenv_reward" enum:"sum last best"`

	// Objective

	// How rewards become advantages. Within a group: mean, the reward minus the group's mean; std, that divided by the group's standard
	// deviation; leave_one_out, the reward minus the mean of the others. Over all tokens of the step: batch, normalised to mean 0 and
	// standard deviation 1; batch_baseline, the same after the group's mean is subtracted.
	Advantage string `json:"advantage" enum:"mean std leave_one_out batch batch_baseline"`
	// Advantages are clipped to this magnitude. 0: not clipped.
	AdvantageClip float64 `json:"advantage_clip"`
	// Learn only from completions with an advantage above 0.
	PositiveOnly bool `json:"positive_only"`
	// The objective, which the step maximises, of a token with advantage A and importance ratio r (trainer's over sampler's probability):
	// importance_sampling r·A; ppo the smaller of r·A and clipped r·A; cispo log p·A weighted by clipped r; cross_entropy log p·A; gspo is
	// ppo with one ratio a sequence, the geometric mean of its tokens' ratios; gspo_token is gspo for advantages that differ by token.
	Loss string `json:"loss" enum:"importance_sampling ppo cispo cross_entropy gspo gspo_token"`
	// The lowest ratio of loss=ppo (0.8), cispo (0), gspo and gspo_token (0.9997).
	ClipLow float64 `json:"clip_low"`
	// The highest ratio of loss=ppo (1.2), cispo (4), gspo and gspo_token (1.0004).
	ClipHigh float64 `json:"clip_high"`
	// The highest ratio of loss=ppo for advantages below 0, such as 3. 0: no limit.
	ClipDual float64 `json:"clip_dual"`
	// Truncated importance sampling, for off-policy completions: ratios are to the policy at the start of the step, and the ratio of that
	// policy to the sampling policy, by token or by sequence, is a weight of at most tis_cap. none: ratios are to the sampling policy.
	TIS string `json:"tis" enum:"none token sequence"`
	// The largest weight of tis=token and sequence (2).
	TISCap float64 `json:"tis_cap"`
	// The weight of a KL penalty against the reference, the model without its adapter; one more forward pass a step. 0: none.
	KLCoef float64 `json:"kl_coef"`
	// How a token's divergence d = log p − log ref counts: k1 as d, k2 as d²/2, k3 as exp(−d) − 1 + d.
	KLEstimator string `json:"kl_estimator" enum:"k1 k2 k3"`
	// Where the penalty goes: into the loss (usually with k3 or k2), or into the reward (with k1).
	KLIn string `json:"kl_in" enum:"loss reward"`
	// The weight of an entropy bonus. 0: none.
	EntropyCoef float64 `json:"entropy_coef"`
	// How token losses combine: their sum; their mean over the step's tokens; each sequence's mean, or sum, averaged over the step's
	// sequences.
	Reduction string `json:"reduction" enum:"sum token_mean sequence_mean sequence_sum"`
	// Updates on the completions of one step.
	NumIterations int `json:"num_iterations"`
	// Sample further problems while groups of a step give no gradient, until the step is full (dynamic sampling).
	Refill bool `json:"refill"`
	// The most rounds of refill in a step.
	MaxRefills int `json:"max_refills"`

	// Warm-up

	// What the run does: grpo; sft, on conversations; dpo, on preferences. The commands grpo sft and grpo dpo set it.
	Method string `json:"method" enum:"grpo sft dpo"`
	// Passes of a warm-up over its data. 0: as many as max_steps take.
	Epochs int `json:"epochs"`
	// Rows of a warm-up's step; with method=dpo each is a pair.
	RowsPerStep int `json:"rows_per_step"`
	// A warm-up cuts its conversations off after this many tokens. 0: at the model's last position.
	RowTokens int `json:"row_tokens"`
	// The turns of the assistant that method=sft learns: all, or the last.
	LearnTurns string `json:"learn_turns" enum:"all last"`
	// The share of its data that a warm-up holds out, drawn by the seed, if test_data names nothing.
	HeldOut float64 `json:"held_out"`
	// The strength with which method=dpo keeps the policy close to where it began.
	DPOBeta float64 `json:"dpo_beta"`
	// What method=dpo minimises, of the margin h by which it prefers the chosen answer: sigmoid, −log σ(dpo_beta·h); ipo, (h −
	// 1/(2·dpo_beta))².
	DPOLoss string `json:"dpo_loss" enum:"sigmoid ipo"`
	// The share of preferences assumed to be the wrong way round, with dpo_loss=sigmoid. 0: none.
	LabelSmoothing float64 `json:"label_smoothing"`

	// Optimizer

	// The peak learning rate.
	LearningRate float64 `json:"learning_rate"`
	// The learning rate after its warm-up.
	Schedule string `json:"schedule" enum:"constant linear cosine"`
	// Steps in which the learning rate rises linearly to its peak. 0: none.
	WarmupSteps int `json:"warmup_steps"`
	// Steps over which schedule=linear and cosine decay, warm-up included. 0, of grpo sft and grpo dpo: the whole run.
	SchedulerTotalSteps int `json:"scheduler_total_steps"`
	// Decay of Adam's first moment.
	AdamBeta1 float64 `json:"adam_beta1"`
	// Decay of Adam's second moment.
	AdamBeta2 float64 `json:"adam_beta2"`
	// Added to the square root in Adam's denominator. With reduction=sum gradients are large: keep it tiny.
	AdamEps float64 `json:"adam_eps"`
	// Decoupled weight decay, times the learning rate. With train=full it spares norms, biases and the embedding. 0: off.
	WeightDecay float64 `json:"weight_decay"`
	// Gradients with a larger norm are scaled down to this norm. 0: off.
	GradClipNorm float64 `json:"grad_clip_norm"`

	// Reward

	// What the reward is: 1 if all tests passed, the share that passed, that of reward_file alone, or the mix of reward_weights.
	Reward string `json:"reward" enum:"correct fraction custom weights"`
	// The mix of reward=weights, such as correct=1,format=0.1: of format, compile, fraction, correct, length, custom and judge.
	RewardWeights string `json:"reward_weights"`
	// Subtracted from the reward of a completion without a program, with reward=correct and fraction.
	FormatCoef float64 `json:"format_coef"`
	// Rewards are clipped to this magnitude. 0: not clipped.
	RewardClip float64 `json:"reward_clip"`
	// Subtracted from the reward of a completion of max_tokens. It falls linearly to 0 at overlong_buffer tokens before that. 0: none.
	OverlongPenalty float64 `json:"overlong_penalty"`
	// Tokens over which overlong_penalty rises (a fifth of max_tokens).
	OverlongBuffer int `json:"overlong_buffer"`
	// A Python file with compute_reward(completion: str, ground_truth: str, **columns) -> float, with columns of the problem's row, or with
	// compute_rewards(completions: list, **columns) -> list. It is tested first; a completion on which it fails is left out of its group.
	RewardFile string `json:"reward_file"`
	// The Python interpreter for reward_file, such as that of a virtual environment. Empty: the interpreter of programs.
	RewardPython string `json:"reward_python"`
	// The address of an OpenAI-compatible API, such as http://host:8000/v1, whose model judges completions (judge in reward_weights).
	// JUDGE_API_KEY in the environment is its key.
	JudgeURL string `json:"judge_url"`
	// The name of the judge's model.
	JudgeModel string `json:"judge_model"`
	// A file with the judge's prompt, a Go text/template with .Statement, .Completion and .GroundTruth. Empty: the built-in prompt.
	JudgePrompt string `json:"judge_prompt"`
	// A pattern with one group, which finds the score in an answer. Empty: {"score": s} or the last number, from 0 to 1.
	JudgeScore string `json:"judge_score"`
	// The most requests to the judge. Completions beyond it are left out, as when the judge fails. 0: no limit.
	JudgeBudget int `json:"judge_budget"`
	// Concurrent requests to the judge. 0: 8.
	JudgeSlots int `json:"judge_slots"`
	// Seconds that the judge has for an answer. 0: 60.
	JudgeTimeout float64 `json:"judge_timeout"`
	// Seconds of processor time for a test that sets no limit of its own.
	RewardTimeout float64 `json:"reward_timeout"`
	// Run at most this many tests of a problem, those with the largest inputs. 0: all.
	MaxTests int `json:"max_tests"`
	// How a completion that was cut off at max_tokens counts: scored as any other, left out, or scored as one without a program.
	OnTruncated string `json:"on_truncated" enum:"grade mask penalise"`
	// How outputs are compared if the problem does not say: numbers must be equal, or close.
	Comparator string `json:"comparator" enum:"exact tolerant"`
	// By how much numbers may differ with comparator=tolerant, absolute or relative, whichever allows more.
	Tolerance float64 `json:"tolerance"`
	// Where programs run. auto: the server of sandbox_url or SANDBOX_URL if there is one, else cells (isolated processes) of this machine;
	// local: cells; unsafe: cells, or plain processes if this machine cannot isolate; fusion: a Sandbox Fusion server.
	Sandbox string `json:"sandbox" enum:"auto local unsafe fusion"`
	// Programs that run at once. 0: SANDBOX_MAX_CONCURRENCY, else one a core.
	SandboxSlots int `json:"sandbox_slots"`
	// Address of the Sandbox Fusion server. Empty: SANDBOX_URL.
	SandboxURL string `json:"sandbox_url"`
	// The Python interpreter for programs, a path or a name on PATH.
	Python string `json:"python"`
	// The number of completions, of 256 in a row, on which the sandbox, the reward file or the judge may fail before the run stops. A step
	// with more than a fifth of its completions unscored ends the run in any case.
	InfraThreshold int `json:"infra_threshold"`

	// Evaluation

	// Steps between evaluations on test_data, besides one at each end. -1: never.
	EvalEvery int `json:"eval_every"`
	// Held-out problems of an evaluation: this many, from the first, that are not trained on. 0: all.
	EvalProblems int `json:"eval_problems"`
	// Completions of each held-out problem at eval_temperature, besides the greedy one. 0: none.
	EvalSamples int `json:"eval_samples"`
	// The k of pass@k and best-of-k, at most eval_samples; lowered with it unless you set it.
	EvalK int `json:"eval_k"`
	// Temperature of eval_samples.
	EvalTemperature float64 `json:"eval_temperature"`
	// Top-k sampling in evaluations. 0: off.
	EvalTopK int `json:"eval_top_k"`
	// Top-p (nucleus) sampling in evaluations. 1: off.
	EvalTopP float64 `json:"eval_top_p"`
	// Min-p sampling in evaluations: drop tokens below this share of the most likely one's probability. 0: off.
	EvalMinP float64 `json:"eval_min_p"`

	// Run

	// The directory of the run. Empty: a new one under runs, named by the time.
	RunDir string `json:"run_dir"`
	// The checkpoint to resume from: auto, the last good one of run_dir, if any; never; or the directory of a run or checkpoint.
	Resume string `json:"resume"`
	// Settings, by name, that may differ from those of the resumed run; also settings that name files whose content may differ. Otherwise a
	// resumed run must keep its model, problems, loss, reward and numerics (precision, order). Other settings may change, and the run
	// prints each change.
	AllowChange []string `json:"allow_change"`
	// Steps of the run. -1: until it is stopped.
	MaxSteps int `json:"max_steps"`
	// Steps between checkpoints, besides one at the end. -1: only that one.
	SaveEvery int `json:"save_every"`
	// How many of the last checkpoints are kept. 0: all.
	KeepLast int `json:"keep_last"`
	// How many checkpoints with the best held-out pass@1 are kept besides the last ones. 0: none.
	KeepBest int `json:"keep_best"`
	// Which completions are recorded: all, those of every Nth step, or none. grpo replay needs those since the checkpoint before a step.
	RecordRollouts string `json:"record_rollouts"`
	// Record them compressed, in rollouts.jsonl.zst: zstd, a frame for each step.
	CompressRollouts bool `json:"compress_rollouts"`
	// While training, serve the policy of the last whole step at this address, such as 127.0.0.1:8000, to clients of OpenAI's API and to
	// browsers. It holds for this start alone, and changes no result. Empty: off.
	Serve string `json:"serve"`
	// A file of the keys of clients, as 'grpo serve' reads it. Required on an address that other machines reach.
	ServeKeys string `json:"serve_keys"`
	// Show the run to browsers at this address, such as 127.0.0.1:7770, as 'grpo watch' does; other addresses need serve_keys. Empty: off.
	Watch string `json:"watch"`
	// Try what the advice on a run says, one change at a time, and go back to the checkpoint before if a held-out score falls. It changes
	// learning_rate, temperature, completions_per_prompt, format_coef and overlong_penalty. See tuning.md.
	Autopilot bool `json:"autopilot"`
	// The seed of every draw of the run.
	Seed uint64 `json:"seed"`
	// Stop if the sampler's and the trainer's probabilities differ, and refuse what can make two runs of one seed differ: a sandbox or
	// judge on another machine, a wall-clock limit that decides what counts. What your own programs and servers answer (reward_file, mcp,
	// env=program, openenv or own) is trusted. Completions that are older than the policy (pipeline=full) cannot be compared.
	Deterministic bool `json:"deterministic"`

	// Readers

	Readers

	// Machine: pipeline=full and device change results; max_rows and share_prefixes, last bits

	Machine
}
