package configs

// Config is everything that decides a run. The comment of a field is its help text, and a comment by
// itself opens a section: Describe, Marshal and docs/config.md read them here, and those of the structs inside
// in machine.go. Where two fields hang on each other, see follow.
type Config struct {
	// The version of this format.
	Version int `json:"version"`

	// Model

	// A Hugging Face model directory, a name on the Hub (owner/name or owner/name@revision), or tiny, which is part of the program.
	Model string `json:"model"`
	// A checkpoint of another run, or its directory, to go on from in another one: weights, moments, data cursor, step; a warm-up's: weights.
	InitFrom string `json:"init_from"`
	// A PEFT adapter directory to start from, with a fresh optimizer. Its rank, alpha and targets must be the ones given here.
	Adapter string `json:"adapter"`
	// What is trained: an adapter, or all weights.
	Train string `json:"train" enum:"lora full"`
	// Rank of the adapter.
	LoRARank int `json:"lora_rank"`
	// The adapter's correction is scaled by lora_alpha / lora_rank.
	LoRAAlpha float64 `json:"lora_alpha"`
	// The linear weights that are adapted.
	LoRATargets []string `json:"lora_targets" enum:"q_proj k_proj v_proj o_proj gate_proj up_proj down_proj"`
	// What numbers are rounded to before they are multiplied with a bf16 weight of the model, in sampling and training alike: f32, not at
	// all; bf16, which is twice as fast where the processor has instructions for it, and what tensor cores of a card multiply; int16, where a
	// weight has four bits and its rows are whole blocks of 64, to whole numbers of 15 bits, which a processor multiplies faster,
	// and otherwise as f32; auto, bf16 on a card and f32 on the processor. Sums are f32 in any case, and the sampler and the trainer
	// agree to the bit. On a card bf16 is also what gradients find of the forward pass, in half the memory; scores do not see that.
	// With bf16, weights that are f32 or f16 in the files are rounded, too, and with train=full for products alone: what is trained and
	// saved is f32 in any case, and auto is f32 there.
	Precision string `json:"precision" enum:"auto f32 bf16 int16"`
	// In which order the sums of products are taken, in sampling and training alike: serial, one by one; tiles, as the tile
	// unit of a processor takes them; auto, when a run begins, tiles where there is such a unit and serial elsewhere. Every
	// processor can take both, to the same bits, and a run keeps its order. A card has one of its own, and knows auto alone.
	Order string `json:"order" enum:"auto serial tiles"`
	// What keys and values are rounded to, in sampling and training alike: f32, not at all; bf16, so that they take half
	// the memory, and half the time to read; auto, the same as precision on a card and with order=tiles, and else f32.
	KVCacheDtype string `json:"kv_cache_dtype" enum:"auto f32 bf16"`
	// What the matrices of an adapter are rounded to in products, and what is multiplied with them, in sampling and training alike: f32,
	// not at all; bf16; auto, bf16 where precision=bf16 meets order=tiles, as a tile unit multiplies bf16 alone, and else f32. The
	// adapter that is trained and saved is f32 in any case, and so are sums.
	AdapterPrecision string `json:"adapter_precision" enum:"auto f32 bf16"`
	// In what form frozen weights are kept: none, as the model's files have them; nf4, those of the layers in four bits each, to the
	// same bits as in the model that 'grpo quantize' writes. The model must be in bf16, or in four bits already.
	Quantize string `json:"quantize" enum:"none nf4"`

	// Data

	// Problems to train on: a JSON Lines or Parquet file, a folder of them, owner/name or owner/name@revision on the Hub, or tiny.
	Data string `json:"data"`
	// The part of the data to train on: train, test, validation or all.
	DataSplit string `json:"data_split"`
	// The only sources to train on, as 'grpo data inspect' lists them. Empty: all.
	DataSources []string `json:"data_sources"`
	// Held-out problems for evaluation, named as for data. Changing data empties it.
	TestData string `json:"test_data"`
	// The part of test_data to evaluate on.
	TestSplit string `json:"test_split"`
	// How the "answer" of rows without tests and "match" is meant. row: those are refused.
	AnswerMatch string `json:"answer_match" enum:"row exact regex json_schema math"`
	// A file with the wording of the prompt, as a Go text/template. Empty: the project's own.
	PromptTemplate string `json:"prompt_template"`
	// How a conversation becomes tokens. auto: as the chat template among the model's files asks; plain: what is said as it is, for models
	// that go on with a text.
	Renderer string `json:"renderer" enum:"auto plain qwen3_instruct qwen3 qwen3_disable_thinking"`
	// What the chat template takes for today. Empty: none, and a template that asks for it fails.
	ChatDate string `json:"chat_date"`
	// Variables of the model's chat template, as a JSON object of names and values. Empty: none.
	ChatVars string `json:"chat_vars"`
	// Leave out problems of data whose statement has fewer characters. 0: none.
	MinPromptChars int `json:"min_prompt_chars"`
	// Leave out problems of data whose statement has more characters. 0: none.
	MaxPromptChars int `json:"max_prompt_chars"`
	// Cut a statement at max_prompt_chars in place of leaving its problem out.
	TruncatePrompts bool `json:"truncate_prompts"`
	// Leave out problems with fewer tests. 0: none.
	MinProblemTests int `json:"min_problem_tests"`
	// Leave out problems with more tests. 0: none. To run fewer of them, see max_tests.
	MaxProblemTests int `json:"max_problem_tests"`
	// A problem that all completions solved, or none, on so many visits in a row is dealt less often from then on. 0: each once an epoch.
	DifficultyPatience int `json:"difficulty_patience"`
	// The chance with which such a problem is dealt all the same, from 0.01 to 1.
	DifficultyKeep float64 `json:"difficulty_keep"`
	// A file of strings, one a line, that no completion may contain; those that do are counted.
	Blocklist string `json:"blocklist"`
	// A completion with a blocked string scores 0, whatever its tests say.
	RejectBlocklisted bool `json:"reject_blocklisted"`
	// Keep a copy of the data in the run directory and read that, so that the run outlives its source.
	CacheDataset bool `json:"cache_dataset"`
	// The SHA-256 that the data must have, as 'grpo data fingerprint' prints it. Empty: any.
	ExpectedDatasetHash string `json:"expected_dataset_hash"`

	// Sampling

	// Problems of a step. Also understood: group_size (problems) with batch_size (completions).
	PromptsPerStep int `json:"prompts_per_step"`
	// Completions of each problem, which are compared with each other.
	CompletionsPerPrompt int `json:"completions_per_prompt"`
	// The most tokens a completion may have.
	MaxTokens int `json:"max_tokens"`
	// Divides the logits; above 0.
	Temperature float64 `json:"temperature"`
	// Strings that end a completion, besides the model's own end of turn.
	Stop []string `json:"stop"`

	// Conversations

	// Who answers the model: nobody (none); heal, which tells what is wrong; tools; program:FILE; openenv:URL; own, a Go program's.
	Env string `json:"env"`
	// Turns of the model in a conversation. The last one ends it.
	MaxTurns int `json:"max_turns"`
	// Tokens of a conversation after its prompt, whoever wrote them. 0: max_turns times max_tokens.
	MaxConversationTokens int `json:"max_conversation_tokens"`
	// Seconds for an answer: of processor time for a call of a tool, of the clock for a program of yours or a server.
	TurnSeconds float64 `json:"turn_seconds"`
	// Seconds of the clock for all that answers a conversation, waiting included; one that takes longer is left out. 0: any.
	ConversationSeconds float64 `json:"conversation_seconds"`
	// What a conversation with env=heal earns: as its last turn, its best, or the last times turn_discount for each before it.
	TurnReward string `json:"turn_reward" enum:"last best discounted"`
	// The factor of turn_reward=discounted, from 0 to 1.
	TurnDiscount float64 `json:"turn_discount"`
	// Of problems that mark no test as public, the first so many may be shown to the model by env=heal and tools.
	PublicTests int `json:"public_tests"`
	// A file with the words of env=heal, as a Go text/template. Empty: the project's own.
	HealTemplate string `json:"heal_template"`
	// What env=tools has of python, run_tests and trace; with mcp it may be none, [].
	Tools []string `json:"tools" enum:"python run_tests trace"`
	// A file that names MCP servers, {"mcpServers": {…}} as other programs have it, whose tools env=tools has too. Empty: none.
	MCP string `json:"mcp"`
	// With env=openenv:URL, the field of an action that a text becomes; json: it is the action. Empty: by the server's schema.
	OpenEnvAction string `json:"openenv_action"`
	// A file that puts an observation into words, a Go text/template of its fields. Empty: the fields that have something in them.
	OpenEnvTemplate string `json:"openenv_template"`
	// What a conversation with env=openenv:URL earns of the rewards of its turns: their sum, the last or the best.
	OpenEnvReward string `json:"openenv_reward" enum:"sum last best"`

	// Objective

	// How rewards become advantages. Within a group: mean, less their mean; std, also divided by their standard deviation;
	// leave_one_out, less the mean of the others. Over all tokens of the step: batch, brought to a mean of 0 and a standard
	// deviation of 1; batch_baseline, the same after the mean of the group was taken off.
	Advantage string `json:"advantage" enum:"mean std leave_one_out batch batch_baseline"`
	// Advantages beyond it count as so much, on both sides of 0. 0: as they are.
	AdvantageClip float64 `json:"advantage_clip"`
	// Learn from completions with an advantage above 0 alone.
	PositiveOnly bool `json:"positive_only"`
	// What is minimised, for the ratio r of the trainer's to the sampler's probability and advantage A: importance_sampling r·A, ppo the
	// smaller of r·A and clipped r·A, cispo log p·A weighted by clipped r, cross_entropy log p·A; gspo is ppo where all tokens of a sequence
	// have one ratio, the geometric mean of theirs, and gspo_token is that where the advantages of tokens may differ.
	Loss string `json:"loss" enum:"importance_sampling ppo cispo cross_entropy gspo gspo_token"`
	// The least ratio of loss=ppo (0.8), cispo (0), gspo and gspo_token (0.9997).
	ClipLow float64 `json:"clip_low"`
	// The greatest ratio of loss=ppo (1.2), cispo (4), gspo and gspo_token (1.0004).
	ClipHigh float64 `json:"clip_high"`
	// The greatest ratio of loss=ppo where the advantage is below 0, as in 3. 0: none.
	ClipDual float64 `json:"clip_dual"`
	// Where completions are older than the policy that the step begins with: ratios are to that policy, and its own ratio to what drew them,
	// of each token or of whole sequences, is a weight of at most tis_cap (truncated importance sampling). none: ratios are to what drew them.
	TIS string `json:"tis" enum:"none token sequence"`
	// The greatest weight of tis=token and sequence (2).
	TISCap float64 `json:"tis_cap"`
	// The weight of a penalty for leaving the reference, the model without its adapter: a pass more for each step. 0: none.
	KLCoef float64 `json:"kl_coef"`
	// How the divergence d = log p − log ref of a token counts: k1 as d, k2 as its square halved, k3 as exp(−d) − 1 + d.
	KLEstimator string `json:"kl_estimator" enum:"k1 k2 k3"`
	// What the penalty is part of: the loss (usually with k3 or k2), or the reward (with k1).
	KLIn string `json:"kl_in" enum:"loss reward"`
	// The weight of a bonus for the entropy of the distributions that tokens are drawn from. 0: none.
	EntropyCoef float64 `json:"entropy_coef"`
	// How tokens add up: each as one; over the tokens of the step; each sequence by its mean, or its sum, over the sequences of the step.
	Reduction string `json:"reduction" enum:"sum token_mean sequence_mean sequence_sum"`
	// Updates on the completions of one step.
	NumIterations int `json:"num_iterations"`
	// Sample further problems while groups of a step teach nothing, for a step of full weight (dynamic sampling).
	Refill bool `json:"refill"`
	// The most such rounds in a step.
	MaxRefills int `json:"max_refills"`

	// Warm-up

	// What the run does: grpo; sft, on conversations; dpo, on preferences. The verbs grpo sft and grpo dpo set it.
	Method string `json:"method" enum:"grpo sft dpo"`
	// Passes of a warm-up over its data. 0: as many as max_steps take.
	Epochs int `json:"epochs"`
	// Rows of a step of a warm-up; with method=dpo each is a pair.
	RowsPerStep int `json:"rows_per_step"`
	// Conversations of a warm-up are cut off after so many tokens. 0: where the model's positions end.
	RowTokens int `json:"row_tokens"`
	// What method=sft learns of a conversation: all turns of the assistant, or the last.
	LearnTurns string `json:"learn_turns" enum:"all last"`
	// The share of data that a warm-up holds out, drawn by the seed, where test_data names nothing.
	HeldOut float64 `json:"held_out"`
	// How closely method=dpo keeps to the policy that it begins with.
	DPOBeta float64 `json:"dpo_beta"`
	// What method=dpo minimises of h, by how much more it prefers the chosen answer: sigmoid, −log σ(dpo_beta·h); ipo, (h − 1/(2·dpo_beta))².
	DPOLoss string `json:"dpo_loss" enum:"sigmoid ipo"`
	// The share of preferences that are taken to be the wrong way round, with dpo_loss=sigmoid. 0: none.
	LabelSmoothing float64 `json:"label_smoothing"`

	// Optimizer

	// The peak learning rate.
	LearningRate float64 `json:"learning_rate"`
	// How the learning rate goes on after the warm-up.
	Schedule string `json:"schedule" enum:"constant linear cosine"`
	// Steps of a linear rise to the peak. 0: none.
	WarmupSteps int `json:"warmup_steps"`
	// Steps that schedule=linear and cosine fall over, their warm-up included. 0, of grpo sft and grpo dpo: all of the run.
	SchedulerTotalSteps int `json:"scheduler_total_steps"`
	// Decay of Adam's mean of the gradient.
	AdamBeta1 float64 `json:"adam_beta1"`
	// Decay of Adam's mean of the squared gradient.
	AdamBeta2 float64 `json:"adam_beta2"`
	// Added to the root in Adam's denominator. With reduction=sum gradients are large: keep it tiny.
	AdamEps float64 `json:"adam_eps"`
	// Taken off every weight, times the learning rate. With train=full norms, biases and the embedding are left alone. 0: off.
	WeightDecay float64 `json:"weight_decay"`
	// Gradients of a larger norm are scaled down to it. 0: off.
	GradClipNorm float64 `json:"grad_clip_norm"`

	// Reward

	// What earns the reward: all tests passed, the share that passed, reward_file alone, or the mix that reward_weights names.
	Reward string `json:"reward" enum:"correct fraction custom weights"`
	// The mix of reward=weights, as in correct=1,format=0.1: of format, compile, fraction, correct, length, custom and judge.
	RewardWeights string `json:"reward_weights"`
	// Taken off the reward of a completion without a program; of reward=correct and fraction.
	FormatCoef float64 `json:"format_coef"`
	// Rewards beyond it count as so much, on both sides of 0. 0: as they are.
	RewardClip float64 `json:"reward_clip"`
	// Taken off the reward of a completion of max_tokens; of shorter ones less, down to none overlong_buffer tokens before. 0: none.
	OverlongPenalty float64 `json:"overlong_penalty"`
	// Tokens over which overlong_penalty rises (a fifth of max_tokens).
	OverlongBuffer int `json:"overlong_buffer"`
	// A Python file with compute_reward(completion: str, ground_truth: str, **columns) -> float, of the row of a problem, or with
	// compute_rewards(completions: list, **columns) -> list. It is tried first; a completion that it fails on is left out of its group.
	RewardFile string `json:"reward_file"`
	// The Python interpreter for reward_file, such as that of a virtual environment. Empty: the one of programs.
	RewardPython string `json:"reward_python"`
	// The address of an API as OpenAI has it, http://host:8000/v1, a model of which judges completions: judge in reward_weights.
	// JUDGE_API_KEY in the environment is its key.
	JudgeURL string `json:"judge_url"`
	// The model to ask there.
	JudgeModel string `json:"judge_model"`
	// A file with what is asked, a Go text/template with .Statement, .Completion and .GroundTruth. Empty: the project's own.
	JudgePrompt string `json:"judge_prompt"`
	// A pattern whose one group finds the score in an answer. Empty: {"score": s} or the last number, from 0 to 1.
	JudgeScore string `json:"judge_score"`
	// Requests that may be sent; beyond them completions are left out, as where the judge fails. 0: any number.
	JudgeBudget int `json:"judge_budget"`
	// Requests at once. 0: 8.
	JudgeSlots int `json:"judge_slots"`
	// Seconds that the judge has for an answer. 0: 60.
	JudgeTimeout float64 `json:"judge_timeout"`
	// Seconds of processor time for a test that sets no limit of its own.
	RewardTimeout float64 `json:"reward_timeout"`
	// Judge by so many tests of a problem, those with the largest inputs. 0: all.
	MaxTests int `json:"max_tests"`
	// What becomes of a completion that was cut off at max_tokens: scored as any other, left out, or scored as one without a program.
	OnTruncated string `json:"on_truncated" enum:"grade mask penalise"`
	// How outputs are compared for problems that say nothing themselves: numbers equal, or close.
	Comparator string `json:"comparator" enum:"exact tolerant"`
	// What comparator=tolerant lets numbers differ by, absolute or relative, whichever allows more.
	Tolerance float64 `json:"tolerance"`
	// Where programs run. auto: the server of sandbox_url or SANDBOX_URL where there is one, else cells of this machine; local: cells;
	// unsafe: cells, or plain processes where this machine can isolate nothing; fusion: a Sandbox Fusion server.
	Sandbox string `json:"sandbox" enum:"auto local unsafe fusion"`
	// Programs that run at once. 0: SANDBOX_MAX_CONCURRENCY, else one a core.
	SandboxSlots int `json:"sandbox_slots"`
	// Address of the Sandbox Fusion server. Empty: SANDBOX_URL.
	SandboxURL string `json:"sandbox_url"`
	// The Python interpreter for programs, a path or a name on PATH.
	Python string `json:"python"`
	// Of 256 completions in a row, how many the sandbox, the reward file or the judge may fail on before the run stops. A step of
	// which more than a fifth could not be scored ends it in any case.
	InfraThreshold int `json:"infra_threshold"`

	// Evaluation

	// Steps between evaluations on test_data; there is one at both ends too. -1: never.
	EvalEvery int `json:"eval_every"`
	// Held-out problems of an evaluation: the first so many that are not trained on. 0: all.
	EvalProblems int `json:"eval_problems"`
	// Completions of each held-out problem at eval_temperature, beside the greedy one. 0: none.
	EvalSamples int `json:"eval_samples"`
	// The k of pass@k and best-of-k, at most eval_samples, and lowered with them where it is not named.
	EvalK int `json:"eval_k"`
	// Temperature of eval_samples.
	EvalTemperature float64 `json:"eval_temperature"`
	// Evaluate by drawing from the k most likely tokens. 0: all.
	EvalTopK int `json:"eval_top_k"`
	// Evaluate by drawing from the fewest tokens that have this probability together. 1: all.
	EvalTopP float64 `json:"eval_top_p"`
	// Evaluate without tokens below this share of the most likely one's probability. 0: with all.
	EvalMinP float64 `json:"eval_min_p"`

	// Run

	// Where the run is kept. Empty: a new directory under runs, named by the time.
	RunDir string `json:"run_dir"`
	// Go on from a checkpoint: auto, the last good one of run_dir where there is one; never; or the directory of a run or checkpoint.
	Resume string `json:"resume"`
	// Settings that may be others than those of the run that is gone on with, by name, or files that may hold
	// something else. Without it a run keeps its model, its problems, its loss, its reward and its numbers (precision, order): one
	// that changes them halfway is neither the one nor the other. Any other setting may change, and is told of.
	AllowChange []string `json:"allow_change"`
	// Steps of the run. -1: until it is stopped.
	MaxSteps int `json:"max_steps"`
	// Steps between checkpoints; there is one at the end too. -1: only that.
	SaveEvery int `json:"save_every"`
	// The last so many checkpoints are kept. 0: all.
	KeepLast int `json:"keep_last"`
	// So many checkpoints with the best held-out pass@1 are kept beside the last. 0: none.
	KeepBest int `json:"keep_best"`
	// Which completions are kept: all, those of every Nth step, or none. grpo replay wants those since the checkpoint before a step.
	RecordRollouts string `json:"record_rollouts"`
	// Keep them compressed, in rollouts.jsonl.zst: zstd, a frame for each step.
	CompressRollouts bool `json:"compress_rollouts"`
	// Serve the policy of the last whole step at this address, such as 127.0.0.1:8000, to clients of OpenAI's API and to
	// browsers, while it is trained; of this start alone. It changes no result. Empty: not at all.
	Serve string `json:"serve"`
	// A file of the keys that may ask there, as 'grpo serve' reads it. An address that other machines reach wants one.
	ServeKeys string `json:"serve_keys"`
	// Show the run to browsers at this address, such as 127.0.0.1:7770, as 'grpo watch' does; others need serve_keys. Empty: not at all.
	Watch string `json:"watch"`
	// Try what the advice on a run says, one change at a time, keep what lowers no held-out score, and go back to the checkpoint
	// before what does: of learning_rate, temperature, completions_per_prompt, format_coef and overlong_penalty. See tuning.md.
	Autopilot bool `json:"autopilot"`
	// Every draw of the run follows from it.
	Seed uint64 `json:"seed"`
	// Stop rather than go on when the sampler's and the trainer's probabilities differ, and refuse what can make two runs of one seed differ:
	// a sandbox or a judge on another machine, a clock that says what counts. What programs and servers of your own answer (reward_file, mcp,
	// env=program, openenv or own) is taken as said. Completions that are older than the policy, as with pipeline=full, cannot be compared.
	Deterministic bool `json:"deterministic"`

	// Readers

	Readers

	// Machine: pipeline=full and device change results; max_rows and share_prefixes, last bits

	Machine
}
