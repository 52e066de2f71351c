package load

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/cmd/grpo/bench"
)

// answerBetween is an answer whose request, first and last token came at these milliseconds.
func answerBetween(asked, from, to int) answer {
	return answer{asked: millis(asked), came: []time.Time{millis(from), millis(to)}}
}

// The sweep over events gives the same result as looking at each millisecond.
func TestAbreast(t *testing.T) {
	most, share := answers{answerBetween(0, 10, 60), answerBetween(0, 40, 100)}.abreast(2)
	require.Equal(t, 2, most)
	require.InDelta(t, 0.2, share, 1e-9)
	most, share = answers{answerBetween(0, 10, 40), answerBetween(0, 40, 100)}.abreast(2)
	require.Equal(t, 1, most, "one ends when the other begins")
	require.Zero(t, share)

	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var all answers
		for range 1 + rng.IntN(8) {
			from := 1 + rng.IntN(30)
			all = append(all, answerBetween(rng.IntN(from), from, from+rng.IntN(30)))
		}
		clients := 1 + rng.IntN(len(all))
		begin, end, slow, together := all[0].asked, millis(0), 0, 0
		for _, a := range all {
			if a.asked.Before(begin) {
				begin = a.asked
			}
			if a.came[1].After(end) {
				end = a.came[1]
			}
		}
		for ms := begin; ms.Before(end); ms = ms.Add(time.Millisecond) {
			n := 0
			for _, a := range all {
				if !ms.Before(a.came[0]) && ms.Before(a.came[1]) {
					n++
				}
			}
			if slow = max(slow, n); n >= clients {
				together++
			}
		}
		most, share := all.abreast(clients)
		require.Equal(t, slow, most)
		require.InDelta(t, float64(together)/float64(end.Sub(begin).Milliseconds()), share, 1e-9)
	}
}

// A server with slots for two of three clients is distinguished from one with slots for all: by the numbers, and in words.
func TestFewerThanWereAskedFor(t *testing.T) {
	l := Load{Model: bench.Model{Runs: 3}, URL: "http://a", Name: "m", Clients: 3, Prompt: 4, Completion: 2}
	places := func(spans ...answer) ask { // by client
		return func(_ context.Context, q question) (answer, error) { return spans[q.seed%(1<<32)], nil }
	}
	r := l.result()
	require.NoError(t, l.measure(t.Context(), places(answerBetween(0, 10, 50), answerBetween(0, 10, 50), answerBetween(0, 50, 100)), nil, r))
	require.Equal(t, Concurrency{Most: []int{2, 2, 2}, All: []float64{0, 0, 0}}, r.AtOnce)
	require.Equal(t, "at once: in 3 of 3 rounds the 3 completions were never all drawn at once, but 2 at the most: "+
		"tokens/s are then of fewer,\n  with the time in them that prompts take; "+
		"type a larger --completion, or a smaller --batch\n", r.Report().Below)

	r = l.result()
	require.NoError(t, l.measure(t.Context(), places(answerBetween(0, 10, 50), answerBetween(0, 20, 60), answerBetween(0, 25, 100)), nil, r))
	require.Equal(t, []int{3, 3, 3}, r.AtOnce.Most)
	require.Equal(t, "at once: all 3 completions were drawn at once for 25.0 % of the time, and tokens/s are of that\n", r.Report().Below)
	require.Equal(t, "beside: all 3 completions were drawn at once for 25.0 % of the time, and tokens/s are of the whole\n",
		r.AtOnce.say("beside", 3, true))

	r.AtOnce.Most[1], r.AtOnce.All[1] = 2, 0
	require.Regexp(t, `^at once: all 3 .* for 25.0 % of the time, .* of that;\n  in 1 of 3 rounds .* but 2 at the most`, r.Report().Below)
}
