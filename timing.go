package grpo

import "github.com/seed-7879b91d/grpo/internal/meter"

// Timing is where a step's time went.
type Timing struct {
	Step      int     `json:"step"`
	Total     float64 `json:"total_s"`
	Sample    float64 `json:"sample_s"`
	Score     float64 `json:"score_s"` // after the last completion, while nothing else ran
	Train     float64 `json:"train_s"`
	TokensSec float64 `json:"sampled_tokens_per_s"`
	TrainSec  float64 `json:"trained_tokens_per_s"`
	Memory    float64 `json:"peak_memory_gb"` // of this process since it started
	// RewardFile is the mean time of a call of the reward file so far.
	RewardFile float64 `json:"reward_file_s,omitempty"`
	// Environment is the time that conversations waited for their answers, all together.
	Environment float64 `json:"environment_s,omitempty"`
}

// timing is that of a step which took so long in all. Its batch may have been drawn during the step before.
func timing(m Metrics, b *rolloutBatch, s spent, total float64) Timing {
	t := Timing{Step: m.Step, Total: total, Sample: s.sample, Score: s.score, Train: s.train, RewardFile: s.rewardFile,
		Memory: meter.PeakMemory()}
	if m.Conversations != nil {
		t.Environment = m.Conversations.Seconds
	}
	if b.seconds > 0 {
		t.TokensSec = float64(m.CompletionTokens) / b.seconds
	}
	if s.train > 0 {
		t.TrainSec = float64(m.Stats.Rows*m.Iterations) / s.train
	}
	return t
}
