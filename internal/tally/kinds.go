package tally

// Provenance says which policy sampled the completions of a step.
type Provenance struct {
	Epoch int `json:"epoch"`
	// Policy is the SHA-256 of the parameters that sampled the step's completions, Trained that after the step. Staleness is
	// the number of updates between the sampling and the step.
	Policy    string `json:"policy_sha256"`
	Trained   string `json:"trained_sha256"`
	Staleness int    `json:"staleness"`
}

// Groups counts the groups of a step.
type Groups struct {
	GroupsTotal   int     `json:"groups_total"`
	GroupsSkipped int     `json:"groups_skipped"` // without contrast, so not trained on
	AllGood       float64 `json:"frac_all_good"`  // share of groups that were all right
	AllBad        float64 `json:"frac_all_bad"`
	Refilled      int     `json:"groups_refilled"` // sampled beyond the step's own
	WastedTokens  int     `json:"wasted_tokens"`   // of skipped groups
	Datums        int     `json:"n_datums"`
}

// Timing is how the time of a step was spent.
type Timing struct {
	Step      int     `json:"step"`
	Total     float64 `json:"total_s"`
	Sample    float64 `json:"sample_s"`
	Score     float64 `json:"score_s"` // waiting for scores after the last completion
	Train     float64 `json:"train_s"`
	TokensSec float64 `json:"sampled_tokens_per_s"`
	TrainSec  float64 `json:"trained_tokens_per_s"`
	Drafted   float64 `json:"drafted"`        // the share of sampled tokens that were accepted drafts
	Memory    float64 `json:"peak_memory_gb"` // peak of this process
	// RewardFile is the mean duration of a call of the reward file so far.
	RewardFile float64 `json:"reward_file_s,omitempty"`
	// Environment is the sum of the times that conversations waited for answers.
	Environment float64 `json:"environment_s,omitempty"`
}
