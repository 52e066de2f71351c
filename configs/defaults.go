package configs

// Defaults are the settings of the code-RL pipeline: the lowest layer, and the preset "defaults".
func Defaults() Config {
	return Config{
		Version: version,

		Model: "Qwen/Qwen3-4B-Instruct-2507", Train: "lora", LoRARank: 32, LoRAAlpha: 32,
		LoRATargets: []string{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"},

		Data: "agentica-org/DeepCoder-Preview-Dataset", DataSplit: "train", DataSources: []string{},
		TestData: "agentica-org/DeepCoder-Preview-Dataset", TestSplit: "test", AnswerMatch: "row", Renderer: "auto", ChatDate: "2024-07-26",
		DifficultyKeep: 0.25,

		PromptsPerStep: 8, CompletionsPerPrompt: 16, MaxTokens: 24576, Temperature: 1, Stop: []string{},

		Env: "none", MaxTurns: 2, TurnSeconds: 5, TurnReward: "last", TurnDiscount: 0.5, PublicTests: 1,
		Tools: []string{"python", "run_tests", "trace"}, OpenEnvReward: "sum",

		Advantage: "mean", Loss: "importance_sampling", TIS: "none", KLEstimator: "k3", KLIn: "loss", Reduction: "sum", NumIterations: 1,

		Method: "grpo", LearnTurns: "all", DPOLoss: "sigmoid",

		LearningRate: 4e-5, Schedule: "constant", AdamBeta1: 0.9, AdamBeta2: 0.95, AdamEps: 1e-12,

		Reward: "correct", FormatCoef: 0.1, RewardTimeout: 6, OnTruncated: "grade", Comparator: "exact",
		Sandbox: "auto", Python: "python3", InfraThreshold: 8,

		EvalEvery: 10, EvalProblems: 128, EvalSamples: 4, EvalK: 4, EvalTemperature: 1, EvalTopP: 1,

		Resume: "auto", AllowChange: []string{}, MaxSteps: -1, SaveEvery: 10, KeepLast: 5, KeepBest: 1,
		RecordRollouts: "all",

		Precision: "auto", Order: "auto", KVCacheDtype: "auto", AdapterPrecision: "auto", Quantize: "none",

		Machine: Machine{Device: "auto", Pipeline: "score", Speculate: true, SharePrefixes: true, Recompute: "auto"},
	}
}
