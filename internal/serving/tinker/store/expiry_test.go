package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// expiring runs Expire until the test ends; a store may have only one.
func expiring(t *testing.T, s *Store) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Expire(ctx, func(model string, err error) { t.Error(model, err) })
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
}

func requireRemoved(t *testing.T, dir string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := os.Stat(dir)
		return os.IsNotExist(err)
	}, 10*time.Second, time.Millisecond)
}

func timeFromNow(d time.Duration) *time.Time {
	at := time.Now().Add(d)
	return &at
}

// Expired checkpoints are removed though nobody lists them: those of before a restart, newly saved ones, and those whose expiry is set
// later.
func TestCheckpointsExpireByThemselves(t *testing.T) {
	s, r := newRun(t)
	save := func(name string, at *time.Time) string {
		require.NoError(t, r.Save(Checkpoint{Kind: Sampler, Name: name, Seq: 1, Expires: at}, false, write("x")))
		return filepath.Join(r.dir, Sampler, name)
	}
	stays, old := save("stays", nil), save("old", timeFromNow(time.Millisecond))
	s.expiry.due = map[*Run]time.Time{} // as in a server that begins
	runs, _, err := s.Runs()
	require.NoError(t, err)
	r = runs[0]
	expiring(t, s)
	requireRemoved(t, old)
	requireRemoved(t, save("new", timeFromNow(5*time.Millisecond)))
	later, hour := save("later", timeFromNow(time.Hour)), timeFromNow(time.Hour)
	c, err := r.Find(Sampler, "later")
	require.NoError(t, err)
	_, err = r.Change(c, func(c *Checkpoint) error { c.Expires = timeFromNow(time.Millisecond); return nil })
	require.NoError(t, err)
	requireRemoved(t, later)
	next, err := r.expire()
	require.NoError(t, err)
	require.Zero(t, next)
	save("then", hour)
	next, err = r.expire()
	require.NoError(t, err)
	require.True(t, hour.Equal(next))
	require.DirExists(t, stays)
}

// Listing while checkpoints expire succeeds; a new one of the same name does not count as expired.
func TestListsWhileCheckpointsExpire(t *testing.T) {
	s, r := newRun(t)
	expiring(t, s)
	var readers sync.WaitGroup
	end := make(chan struct{})
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
				}
				if _, err := r.Checkpoints(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	var last string
	for i := range 20 {
		name := fmt.Sprint("n", i%2)
		c := Checkpoint{Kind: Weights, Name: name, Seq: int64(i), Expires: timeFromNow(time.Millisecond)}
		require.NoError(t, r.Save(c, true, write("x")))
		last = filepath.Join(r.dir, Weights, name)
	}
	requireRemoved(t, last)
	require.NoError(t, r.Save(Checkpoint{Kind: Weights, Name: "n0", Seq: 99}, true, write("stays")))
	close(end)
	readers.Wait()
	all, err := r.Checkpoints()
	require.NoError(t, err)
	require.Len(t, all, 1)
}
