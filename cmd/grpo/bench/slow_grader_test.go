package bench

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/reward"
)

// recordingGrader is a grader that records its completions.
type recordingGrader struct{ seen []reward.Completion }

func (e *recordingGrader) Grade(_ context.Context, c reward.Completion) (reward.Score, error) {
	e.seen = append(e.seen, c)
	return reward.Score{Verdict: reward.AC}, nil
}

func TestSlowGraderWorksFirst(t *testing.T) {
	var e recordingGrader
	l := slowGrader{Grader: &e, work: 1500 * time.Microsecond}
	for _, text := range []string{"```python\nprint(1)\n```", "no program"} {
		_, err := l.Grade(t.Context(), reward.Completion{Text: text})
		require.NoError(t, err)
	}
	require.True(t, e.seen[0].Bare)
	require.Contains(t, e.seen[0].Text, "+ 0.0015\n")
	require.True(t, strings.HasSuffix(e.seen[0].Text, "pass\nprint(1)\n"), e.seen[0].Text)
	require.Equal(t, reward.Completion{Text: "no program"}, e.seen[1])
	require.EqualValues(t, 1, l.programs.Load())
	l.sleep = true
	_, err := l.Grade(t.Context(), reward.Completion{Text: "```python\nprint(1)\n```"})
	require.NoError(t, err)
	require.Contains(t, e.seen[2].Text, "sleep(0.0015)\n")
}
