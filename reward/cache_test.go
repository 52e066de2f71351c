package reward

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestFlightsRunOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newSingleFlight[string, int](10)
		gate := make(chan struct{})
		var runs, hits atomic.Int32
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				v, cached, err := f.do(t.Context(), "a", func() (int, bool, error) {
					runs.Add(1)
					<-gate
					return 7, true, nil
				})
				require.NoError(t, err)
				require.Equal(t, 7, v)
				if cached {
					hits.Add(1)
				}
			})
		}
		synctest.Wait()
		close(gate)
		wg.Wait()
		require.EqualValues(t, 1, runs.Load())
		require.EqualValues(t, 4, hits.Load())
	})
}

// A value that is not kept, or a failure, makes the next caller run its own function.
func TestFlightsRunAgain(t *testing.T) {
	f := newSingleFlight[string, int](10)
	broken := errors.New("broken")
	for i, want := range []error{broken, nil, nil} {
		v, cached, err := f.do(t.Context(), "a", func() (int, bool, error) { return i, false, want })
		require.Equal(t, want, err)
		require.False(t, cached)
		require.Equal(t, i, v)
	}
}

func TestFlightsWaitersCanLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newSingleFlight[string, int](10)
		gate := make(chan struct{})
		go f.do(t.Context(), "a", func() (int, bool, error) { <-gate; return 1, true, nil })
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, _, err := f.do(ctx, "a", func() (int, bool, error) { panic("not twice") })
		require.ErrorIs(t, err, context.Canceled)
		close(gate)
	})
}

func TestFlightsForgetTheOldest(t *testing.T) {
	f := newSingleFlight[int, int](3)
	ask := func(key int) (cached bool) {
		v, cached, err := f.do(t.Context(), key, func() (int, bool, error) { return key, true, nil })
		require.NoError(t, err)
		require.Equal(t, key, v)
		return cached
	}
	for key := range 100 {
		ask(key)
		if cached := ask(0); key > 0 {
			require.True(t, cached, "a key in use must stay cached")
		}
		require.LessOrEqual(t, len(f.young)+len(f.old), 6)
	}
	require.True(t, ask(99))
	require.False(t, ask(1))
}
