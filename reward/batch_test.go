package reward

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// scoreByText pays a point for each character, and counts its calls.
func scoreByText(calls *atomic.Int32) Grader {
	return GraderFunc(func(_ context.Context, c Completion) (Score, error) {
		calls.Add(1)
		if c.Text == "broken" {
			return Score{}, errors.New("no sandbox")
		}
		return Score{Reward: float64(len(c.Text))}, nil
	})
}

func TestABatchKnowsItsItems(t *testing.T) {
	for _, late := range []bool{false, true} {
		var calls atomic.Int32
		b := NewBatch[string](t.Context(), scoreByText(&calls), 3, late)
		for _, text := range []string{"a", "bb", "ccc"} {
			b.Add(text, Completion{Text: text})
		}
		if late {
			require.Zero(t, calls.Load())
		}
		b.Close()
		require.Equal(t, 3, b.Missing())
		heard := 0
		for range 2 { // a second call returns the same
			marked, err := b.Wait(t.Context(), func() { heard++ })
			require.NoError(t, err)
			require.Len(t, marked, 3)
			for _, m := range marked {
				require.Equal(t, float64(len(m.Item)), m.Score.Reward)
			}
		}
		require.Equal(t, 3, heard)
		require.NoError(t, b.Abandon())
	}
}

func TestABrokenBatchSaysSoEachTime(t *testing.T) {
	var calls atomic.Int32
	b := NewBatch[int](t.Context(), scoreByText(&calls), 2, false)
	told := make(chan error, 1)
	defer b.Broken(func(cause error) { told <- cause })()
	b.Add(0, Completion{Text: "broken"})
	require.ErrorContains(t, <-told, "no sandbox")
	for range 2 {
		_, err := b.Wait(t.Context(), func() {})
		require.ErrorContains(t, err, "no sandbox")
	}
	require.True(t, b.Failed())
	require.NoError(t, b.Abandon(), "an error that was returned is not returned again")

	b = NewBatch[int](t.Context(), scoreByText(&calls), 1, false)
	b.Add(0, Completion{Text: "broken"})
	<-b.ctx.Done()
	require.ErrorContains(t, b.Abandon(), "no sandbox")
}

// A completion that will not be judged does not hold up its peers.
func TestABatchTellsPeersWhoDoesNotCome(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	peers := NewPeers(2)
	b := NewBatch[int](t.Context(), GraderFunc(func(_ context.Context, c Completion) (Score, error) {
		if c.Text == "" {
			return Score{Excluded: ExcludedTruncated}, nil
		}
		_, err := c.Peers.judge(ctx, c.Place, c.Text, func(texts []string) ([]opinion, error) { return make([]opinion, len(texts)), nil })
		return Score{}, err
	}), 2, false)
	for place, text := range []string{"a", ""} {
		b.Add(place, Completion{Text: text, Peers: peers, Place: place})
	}
	marked, err := b.Wait(ctx, func() {})
	require.NoError(t, err)
	require.Len(t, marked, 2)
}

func TestWhoStopsWaitingMayGoOn(t *testing.T) {
	release := make(chan struct{})
	b := NewBatch[int](t.Context(), GraderFunc(func(ctx context.Context, _ Completion) (Score, error) {
		select {
		case <-release:
			return Score{Reward: 1}, nil
		case <-ctx.Done():
			return Score{}, ctx.Err()
		}
	}), 1, false)
	b.Add(7, Completion{})
	b.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := b.Wait(ctx, func() {})
	require.ErrorIs(t, err, context.Canceled)
	close(release)
	marked, err := b.Wait(t.Context(), func() {})
	require.NoError(t, err)
	require.Equal(t, []Marked[int]{{7, Score{Reward: 1}}}, marked)

	stuck := NewBatch[int](t.Context(), GraderFunc(func(ctx context.Context, _ Completion) (Score, error) {
		<-ctx.Done()
		return Score{}, ctx.Err()
	}), 1, false)
	stuck.Add(0, Completion{})
	require.NoError(t, stuck.Abandon(), "giving up is no fault of the grader")
}

// An item whose score is already known is part of the batch like those that are scored.
func TestABatchHasWhatIsSettled(t *testing.T) {
	var calls atomic.Int32
	b := NewBatch[string](t.Context(), scoreByText(&calls), 2, true)
	b.Settle("known", Score{Reward: 7})
	b.Add("a", Completion{Text: "a"})
	b.Close()
	require.Equal(t, []string{"known", "a"}, b.Items())
	marked, err := b.Wait(t.Context(), func() {})
	require.NoError(t, err)
	require.ElementsMatch(t, []Marked[string]{{"known", Score{Reward: 7}}, {"a", Score{Reward: 1}}}, marked)
	require.EqualValues(t, 1, calls.Load())
}

// Abandon returns once the graders have ended.
func TestAnAbandonedBatchHasEnded(t *testing.T) {
	var ended atomic.Bool
	b := NewBatch[int](t.Context(), GraderFunc(func(ctx context.Context, _ Completion) (Score, error) {
		<-ctx.Done()
		time.Sleep(5 * time.Millisecond)
		ended.Store(true)
		return Score{}, ctx.Err()
	}), 1, false)
	b.Add(0, Completion{})
	require.NoError(t, b.Abandon())
	require.True(t, ended.Load())
}
