package sampler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// On a machine where a row of a prompt takes a millisecond, and drawing so long, iterations come to take what is meant,
// and drawing gets half of the time at the least.
func TestPromptsTakeTheTimeThatIsMeant(t *testing.T) {
	for _, c := range []struct{ goal, drawing, least, most time.Duration }{
		{200 * time.Millisecond, 40 * time.Millisecond, 140 * time.Millisecond, 200 * time.Millisecond},
		{200 * time.Millisecond, 300 * time.Millisecond, 450 * time.Millisecond, 600 * time.Millisecond},
		{time.Hour, time.Millisecond, 513 * time.Millisecond, 513 * time.Millisecond},
		{time.Millisecond, 0, fewestRows * time.Millisecond, fewestRows * time.Millisecond},
		{0, time.Hour, time.Hour, time.Hour + time.Second},
	} {
		p := newPace(c.goal, 512)
		took := time.Duration(0)
		for i := range 60 {
			prompts := 0
			if i >= 20 {
				prompts = p.rows
			}
			took = c.drawing + time.Duration(prompts)*time.Millisecond
			p.saw(prompts, took)
		}
		require.GreaterOrEqual(t, took, c.least, "%+v", c)
		require.LessOrEqual(t, took, c.most, "%+v", c)
		require.LessOrEqual(t, p.rows, 512)
		p.saw(1, time.Millisecond) // a short prompt says nothing of longer ones
		require.LessOrEqual(t, p.rows, 512)
	}
}
