package grpo

import (
	"github.com/seed-7879b91d/grpo/internal/meter"
	"github.com/seed-7879b91d/grpo/internal/tally"
)

// Timing is where a step's time went.
type Timing = tally.Timing

// timing is that of a step which took so long in all. Its batch may have been drawn during the step before.
func timing(m Metrics, b *rolloutBatch, s spent, total float64) Timing {
	t := Timing{Step: m.Step, Total: total, Sample: s.sample, Score: s.score, Train: s.train, RewardFile: s.rewardFile,
		Memory: meter.PeakMemory()}
	if m.Conversations != nil {
		t.Environment = m.Conversations.Seconds
	}
	if b.seconds > 0 {
		t.TokensSec, t.Drafted = float64(m.CompletionTokens)/b.seconds, float64(b.drafted)/float64(max(m.CompletionTokens, 1))
	}
	if s.train > 0 {
		t.TrainSec = float64(m.Stats.Rows*m.Iterations) / s.train
	}
	return t
}
