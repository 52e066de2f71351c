package sampler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// On a machine where a prompt row takes a millisecond, iterations approach the intended time, and drawing gets at least half of it.
func TestPromptsTakeTheTimeThatIsMeant(t *testing.T) {
	for _, c := range []struct{ goal, drawing, least, most time.Duration }{
		{200 * time.Millisecond, 40 * time.Millisecond, 180 * time.Millisecond, 200 * time.Millisecond},
		{200 * time.Millisecond, 300 * time.Millisecond, 580 * time.Millisecond, 600 * time.Millisecond},
		{time.Hour, time.Millisecond, 513 * time.Millisecond, 513 * time.Millisecond},
		{time.Millisecond, 0, fewestRows * time.Millisecond, fewestRows * time.Millisecond},
		{0, time.Hour, time.Hour, time.Hour + time.Second},
	} {
		p := newPace(c.goal, 512)
		took := time.Duration(0)
		for i := range 60 {
			prompts := 0
			if i >= 20 {
				prompts = p.allowed(4)
			}
			if now := c.drawing + time.Duration(prompts)*time.Millisecond; i < 20 || prompts > 0 {
				took = now
				p.saw(4, prompts, took)
			} else {
				p.saw(4, 0, now)
			}
		}
		require.GreaterOrEqual(t, took, c.least, "%+v", c)
		require.LessOrEqual(t, took, c.most, "%+v", c)
		require.LessOrEqual(t, p.rows, 512)
		p.saw(4, 1, time.Millisecond) // a short prompt says nothing about longer ones
		require.LessOrEqual(t, p.rows, 512)
	}
}

// On various machines, a long prompt beside streams takes about twice the time that it takes alone, or what the streams leave of it: also
// if the streams began together with it, and nothing was measured; if twice as many arrive meanwhile; and if one iteration in five takes
// four times as long, as other programs run there.
func TestALongPromptHasHalfOfTheTime(t *testing.T) {
	const length = 8192
	us := time.Microsecond
	for _, c := range []struct {
		name             string
		step, draw, row  time.Duration // of each iteration, and of each row in it
		streams          int
		measured, double bool
		noise            bool
	}{
		{"a laptop that computes", 10 * us, 6000 * us, 4000 * us, 16, true, false, false},
		{"that knows nothing yet", 10 * us, 6000 * us, 4000 * us, 16, false, false, false},
		{"with more to come", 10 * us, 6000 * us, 4000 * us, 4, true, true, false},
		{"with other work beside", 10 * us, 6000 * us, 4000 * us, 16, false, true, true},
		{"one stream that waits for memory", 60000 * us, 1000 * us, 3000 * us, 1, true, false, false},
		{"a card that waits for memory", 8000 * us, 40 * us, 20 * us, 64, false, false, false},
		{"a tiny model", 200 * us, 100 * us, 60 * us, 16, false, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPace(50*time.Millisecond, 512)
			cost := func(draws, prompts int) time.Duration {
				return c.step + time.Duration(draws)*c.draw + time.Duration(prompts)*c.row
			}
			if c.measured {
				p.saw(c.streams, 0, cost(c.streams, 0))
			}
			streams, steps, late := c.streams, 0, 0
			var alone, took time.Duration
			for left := length; left > 0; left -= min(left, 512) {
				alone += cost(0, min(left, 512))
			}
			for left := length; left > 0; steps++ {
				if c.double && steps == 20 {
					streams *= 2
				}
				prompts := min(p.allowed(streams), left)
				now, plain := cost(streams, prompts), cost(streams, 0)
				if now > max(50*time.Millisecond, 2*plain+time.Duration(fewestRows)*c.row) {
					late++
				}
				if left, took = left-prompts, took+now; c.noise && steps%5 == 3 {
					now *= 4
				}
				p.saw(streams, prompts, now)
			}
			require.LessOrEqual(t, took, 3*alone, "%d steps", steps)
			if !c.noise {
				require.LessOrEqual(t, late, steps/20+2, "of %d steps took longer than they should", steps)
			}
		})
	}
}

// A prompt beside many streams, with time counted in rows: a prompt row takes 1 ms, a draw takes 4. The prompt takes about twice the time
// of its rows, and the time between two tokens of a stream at most doubles.
func TestALongPromptBesideManyStreams(t *testing.T) {
	const length, streams = 460, 16
	q := newQueue(t, Options{MaxLength: 512, MaxSequences: 24, TokenBudget: 256, Pace: time.Millisecond})
	drawn, rows := 0, 0
	q.l.s.now = func() time.Time {
		return time.Unix(0, 0).Add(time.Duration(q.l.s.Computed+3*drawn) * time.Millisecond)
	}
	clock := func() int { return q.l.s.Computed + 3*drawn }
	q.heard = func() { drawn++ }
	for range streams {
		q.ask("", "", 3, 1, 60)
	}
	long := q.ask("", "", length, 1, 4)
	began, late := clock(), 0
	for q.first[long] < 0 {
		before, computed := clock(), q.l.s.Computed
		q.steps(1)
		rows = max(rows, q.l.s.Computed-computed)
		took := clock() - before
		if q.iteration > 2 && took > 2*4*streams {
			late++
		}
		if q.iteration > 1 { // the first iteration draws nothing yet
			require.LessOrEqual(t, took, 3*4*streams)
		}
	}
	require.LessOrEqual(t, late, 2)
	require.Greater(t, rows, 3*streams, "prefill must get at least the rows that drawing costs")
	require.Less(t, clock()-began, 3*length)
	require.Less(t, q.iteration, 16)
	q.finish()
}
