package outcome

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/reward"
)

// The share with a program is that of the recorded evaluation: among the judged completions, with or without a reward.
func TestShareWithAProgram(t *testing.T) {
	var try grpo.Attempt
	for _, s := range []reward.Score{
		{}, {Excluded: reward.ExcludedCustom}, {Excluded: reward.ExcludedInfra}, {Excluded: reward.ExcludedTruncated},
		{Components: reward.Components{Format: -1}},
	} {
		try.Groups = append(try.Groups, grpo.Group{Rollouts: []grpo.Scored{{Score: s}}})
	}
	require.Equal(t, 0.5, NewAttempts(try).FormatRate)
	require.Equal(t, 3, NewAttempts(try).NotScored)
}
