package sessions

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// put has a session work until the channel is closed, and gives the job of that.
func put(t *testing.T, n *session, key string, goOn <-chan bool, err error) *job {
	j, refused := n.join(&job{key: key, over: make(chan struct{}), run: func(context.Context) ([]byte, error) {
		for range goOn {
		}
		return nil, err
	}})
	require.NoError(t, refused)
	return j
}

// A session leaves the memory each time that nobody asks it anything, also where it was asked little in between.
func TestASessionRestsAgain(t *testing.T) {
	_, n := quiet(t, Options{})
	at := make(chan bool)
	n.rest()
	held := put(t, n, "a", at, nil)
	at <- true // it is worked on
	n.rest()
	n.mu.Lock()
	waiting := len(n.queue)
	n.mu.Unlock()
	close(at)
	<-held.over
	require.Positive(t, waiting)
}

// A request that failed and comes again is one job, whatever becomes of the answers of before.
func TestATryAgainIsOneJob(t *testing.T) {
	_, n := quiet(t, Options{})
	at, now := make(chan bool), make(chan bool)
	close(now)
	failed := put(t, n, "a", now, errors.New("it failed"))
	<-failed.over
	n.forgetJob(failed)
	var last *job
	for _, key := range []string{"b", "c", "d", "e"}[:mostKept] {
		last = put(t, n, key, now, nil)
	}
	again := put(t, n, "a", at, nil)
	<-last.over
	same := put(t, n, "a", at, nil)
	close(at)
	<-again.over
	require.Same(t, again, same)
}

// Of two who remove a session at once one does, and the other hears that it is not there.
func TestASessionIsRemovedOnce(t *testing.T) {
	s, n := quiet(t, Options{})
	require.NoError(t, s.delete(httptest.NewRecorder(), nil, n))
	require.ErrorContains(t, s.delete(httptest.NewRecorder(), nil, n), `there is no session "a" here`)
}
