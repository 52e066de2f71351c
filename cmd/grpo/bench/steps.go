package bench

import (
	"time"

	"github.com/seed-7879b91d/grpo/model"
)

// Steps are decoding steps, with a context in the KV cache.
type Steps struct{ s *sequences }

// NewSteps fills the KV cache.
func NewSteps(p *model.Policy, batch, context int) (*Steps, error) {
	s, err := newSequences(p, max(batch, context), batch, context, decodeSteps)
	if err != nil {
		return nil, err
	}
	if err := s.prefill(1); err != nil {
		return nil, err
	}
	s.spread()
	return &Steps{s}, nil
}

// Time is the time of a step, which samples a token for each sequence.
func (s *Steps) Time() (time.Duration, error) {
	start := time.Now()
	err := s.s.decode(decodeSteps)
	return time.Since(start) / decodeSteps, err
}
