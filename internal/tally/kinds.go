package tally

// Provenance is where the completions of a step come from.
type Provenance struct {
	Epoch int `json:"epoch"`
	// Policy is the SHA-256 of the parameters that the step's completions were sampled with, and Trained
	// of those after the step. Staleness is how many updates lie between the first and the step.
	Policy    string `json:"policy_sha256"`
	Trained   string `json:"trained_sha256"`
	Staleness int    `json:"staleness"`
}

// Groups are counts of the groups of a step.
type Groups struct {
	GroupsTotal   int     `json:"groups_total"`
	GroupsSkipped int     `json:"groups_skipped"` // degenerate: nothing to learn
	AllGood       float64 `json:"frac_all_good"`  // groups that were right throughout
	AllBad        float64 `json:"frac_all_bad"`
	Refilled      int     `json:"groups_refilled"` // drawn beyond the step's own
	WastedTokens  int     `json:"wasted_tokens"`   // of groups that were skipped
	Datums        int     `json:"n_datums"`
}

// Timing is where a step's time went.
type Timing struct {
	Step      int     `json:"step"`
	Total     float64 `json:"total_s"`
	Sample    float64 `json:"sample_s"`
	Score     float64 `json:"score_s"` // after the last completion, while nothing else ran
	Train     float64 `json:"train_s"`
	TokensSec float64 `json:"sampled_tokens_per_s"`
	TrainSec  float64 `json:"trained_tokens_per_s"`
	Drafted   float64 `json:"drafted"`        // the share of what was sampled that was drafted, and came
	Memory    float64 `json:"peak_memory_gb"` // of this process since it started
	// RewardFile is the mean time of a call of the reward file so far.
	RewardFile float64 `json:"reward_file_s,omitempty"`
	// Environment is the time that conversations waited for their answers, all together.
	Environment float64 `json:"environment_s,omitempty"`
}
