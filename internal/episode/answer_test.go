package episode

import (
	"context"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/reward"
)

// fixed gives every episode the same answer; without one it does not open any.
type fixed struct{ answer *Answer }

func (f fixed) Open(context.Context, *data.Problem) (Episode, error) {
	if f.answer == nil {
		return nil, nil
	}
	return f, nil
}
func (f fixed) Turn(context.Context, Said) (Answer, error) { return *f.answer, nil }
func (f fixed) Close() error                               { return nil }

// Values that could not be compared or recorded, such as NaN, end the step before training, and a missing episode does not crash.
func TestAnswersAreHeldToNumbers(t *testing.T) {
	of := func(f fixed) error {
		x := &attempt{group: &group{Player: &Player{}, ctx: t.Context(), env: f, work: new(sync.WaitGroup)}}
		_, err := x.ask(Said{})
		return err
	}
	require.EqualError(t, of(fixed{}), "the environment opened no episode, and said no error")
	require.NoError(t, of(fixed{&Answer{Reward: -3, Score: &reward.Score{Reward: 1}}}))
	for _, r := range []float64{math.NaN(), math.Inf(-1), 1e300} {
		require.ErrorContains(t, of(fixed{&Answer{Reward: r}}), "the environment's reward is ")
	}
	named := &attempt{group: &group{Player: &Player{}, ctx: t.Context(), env: fixed{&Answer{Reward: 1e300}}, work: new(sync.WaitGroup)}}
	named.start.Problem = &data.Problem{ID: "p"}
	_, err := named.ask(Said{Raw: "said", Turn: 1})
	require.EqualError(t, err, `problem p, turn 2: the environment's reward is 1e+300, expected a number of at most 1.7e+38 either way: `+
		`have it give a smaller one; what was said begins "said"`)
	score := &reward.Score{Components: reward.Components{Correct: math.NaN()}}
	require.ErrorContains(t, of(fixed{&Answer{Score: score}}), "unsupported value: NaN, expected numbers")
}

// delayed takes a while for an answer, unless it is cancelled, and returns it in any case.
type delayed struct {
	fixed
	takes time.Duration
}

func (d delayed) Open(context.Context, *data.Problem) (Episode, error) { return d, nil }
func (d delayed) Turn(ctx context.Context, _ Said) (Answer, error) {
	select {
	case <-time.After(d.takes):
	case <-ctx.Done():
		if d.answer == nil {
			return Answer{}, ctx.Err()
		}
	}
	return *d.answer, nil
}

// The time of an environment is shared by all its answers, and an answer that has arrived counts, however late.
func TestTimeIsThatOfAllAnswers(t *testing.T) {
	of := func(d delayed) error {
		x := &attempt{group: &group{Player: &Player{Limits: Limits{Time: time.Hour}}, ctx: t.Context(), env: d, work: new(sync.WaitGroup)}}
		x.took = time.Hour - time.Millisecond
		_, err := x.ask(Said{})
		return err
	}
	var slow *TimeoutError
	require.ErrorAs(t, of(delayed{takes: time.Minute}), &slow)
	require.NoError(t, of(delayed{fixed{&Answer{}}, time.Minute}))
}
