package reward

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

func TestGroups(t *testing.T) {
	f := newFake()
	j := NewJudge(correct(t), f, nil, nil)
	grade(t, j, Completion{Problem: echoProblem("p", 1), Text: fenced("echo")})
	grade(t, j, Completion{Problem: echoProblem("p", 2), Group: "step 3, p", Text: fenced("echo")})
	require.Equal(t, []string{"p", "step 3, p"}, f.groups)
}

// Scores come in the order of the completions, whichever is done first; they do not wait for completions
// that have not come in yet.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.programs["sleep\n"] = func(in sandbox.Input) sandbox.Result { time.Sleep(time.Hour); return echo(in) }
		j := NewJudge(correct(t), f, nil, nil)
		in := make(chan Completion)
		start := time.Now()
		go func() {
			in <- Completion{Problem: echoProblem("a", 1), Text: fenced("sleep")}
			in <- Completion{Problem: echoProblem("b", 1), Text: fenced("empty")}
			time.Sleep(2 * time.Hour)
			in <- Completion{Problem: echoProblem("c", 1), Text: fenced("echo")}
			close(in)
		}()
		var rewards []float64
		var at []time.Duration
		for s, err := range Stream(t.Context(), j, in, 8) {
			require.NoError(t, err)
			rewards, at = append(rewards, s.Score.Reward), append(at, time.Since(start))
		}
		require.Equal(t, []float64{1, 0, 1}, rewards)
		require.Equal(t, []time.Duration{time.Hour, time.Hour, 2 * time.Hour}, at)
	})
}

func TestStreamBoundsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		under, most := 0, 0
		f.programs["count\n"] = func(in sandbox.Input) sandbox.Result {
			f.mu.Lock()
			under++
			most = max(most, under)
			f.mu.Unlock()
			time.Sleep(time.Second)
			f.mu.Lock()
			under--
			f.mu.Unlock()
			return echo(in)
		}
		in := make(chan Completion, 20)
		for i := range 20 { // all different, because equal ones would run once
			text := strconv.Itoa(i)
			p := data.Problem{ID: text, Kind: data.Stdin}.WithTests(data.Test{Stdin: text, Stdout: text})
			in <- Completion{Problem: &p, Text: fenced("count")}
		}
		close(in)
		n := 0
		for _, err := range Stream(t.Context(), NewJudge(correct(t), f, nil, nil), in, 4) {
			require.NoError(t, err)
			n++
		}
		require.Equal(t, 20, n)
		require.Equal(t, 4, most)
	})
}

func TestStreamCanBeCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.slots = make(chan struct{}) // no run ever gets a slot
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("enough")
		go func() { time.Sleep(time.Minute); cancel(stop) }()
		_, err := All(ctx, NewJudge(correct(t), f, nil, nil),
			[]Completion{{Problem: echoProblem("a", 1), Text: fenced("echo")}, {Problem: echoProblem("b", 1), Text: fenced("echo")}})
		require.ErrorIs(t, err, stop)
	})
}
