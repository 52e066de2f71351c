package grpo

import (
	"github.com/seed-7879b91d/grpo/internal/meter"
	"github.com/seed-7879b91d/grpo/internal/tally"
)

// Timing has the time of a step by phase, its throughput and peak memory.
type Timing = tally.Timing

// timing puts together the timing of a step. Throughput of sampling is that of its batch, even if sampled a step earlier.
func timing(m Metrics, b *rolloutBatch, s phaseTimes, total float64) Timing {
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
