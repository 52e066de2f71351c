package autopilot

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
)

// A later evaluation of a run rewards like the run's own evaluations.
func TestACheckpointJudgesAsTheRunDid(t *testing.T) {
	cfg := configs.Defaults()
	cfg.Autopilot, cfg.FormatCoef = true, 0.1
	p := New(Values{Format: 0.1})
	p.RestoreFormatWeight(&cfg)
	require.Equal(t, 0.1, cfg.FormatCoef)
	p.set(Format, 0.2)
	p.RestoreFormatWeight(&cfg)
	require.Equal(t, 0.2, cfg.FormatCoef)
	cfg.Autopilot, cfg.FormatCoef = false, 0.1
	p.RestoreFormatWeight(&cfg)
	require.Equal(t, 0.1, cfg.FormatCoef)
	p = nil
	p.RestoreFormatWeight(&cfg)
}
