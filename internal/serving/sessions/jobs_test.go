package sessions

import (
	"context"
	"errors"
	"net/http/httptest"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// Small sessions are opened and closed: letting the heap grow is cheaper than a garbage collection for each of them.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	m.Run()
}

// put gives a session a job that runs until the channel is closed, and returns it.
func put(t *testing.T, n *session, key string, goOn <-chan bool, err error) *job {
	j, refused := n.join(&job{key: key, over: make(chan struct{}), run: func(context.Context) ([]byte, error) {
		for range goOn {
		}
		return nil, err
	}})
	require.NoError(t, refused)
	return j
}

// An idle session leaves memory each time, also after a short use in between.
func TestASessionRestsAgain(t *testing.T) {
	_, n := idleServer(t, Options{})
	at := make(chan bool)
	n.queueUnload()
	held := put(t, n, "a", at, nil)
	at <- true // it is running
	n.queueUnload()
	n.mu.Lock()
	waiting := len(n.queue)
	n.mu.Unlock()
	close(at)
	<-held.over
	require.Positive(t, waiting)
}

// A failed request that is retried is one job, whatever happens to earlier answers.
func TestATryAgainIsOneJob(t *testing.T) {
	_, n := idleServer(t, Options{})
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

// If two clients remove a session at once, one succeeds, and the other gets 404.
func TestASessionIsRemovedOnce(t *testing.T) {
	s, n := idleServer(t, Options{})
	require.NoError(t, s.delete(httptest.NewRecorder(), nil, n))
	require.ErrorContains(t, s.delete(httptest.NewRecorder(), nil, n), `there is no session "a" here`)
}

// A step that failed without anyone reading the error may be retried with another body.
func TestAStepThatFailedIsAskedForAnew(t *testing.T) {
	_, n := idleServer(t, Options{})
	now := make(chan bool)
	close(now)
	<-put(t, n, "step 1", now, errors.New("it failed")).over
	other, err := n.join(&job{key: "step 1", sum: "other", over: make(chan struct{}),
		run: func(context.Context) ([]byte, error) { return nil, nil }})
	require.NoError(t, err)
	<-other.over
	_, err = n.join(&job{key: "step 1", sum: "third"})
	require.ErrorContains(t, err, "step 1 was requested with other content before")
}

// While a session is being removed, its key begins no other, and requests to it get 404.
func TestASessionThatIsBeingRemoved(t *testing.T) {
	s := newServer(t)
	begin := func() string { return s.begin("k", `{}`) }
	require.Contains(t, begin(), "200 ")
	n, at, ended := s.sessions[idOf("", "k")], make(chan bool), make(chan string)
	put(t, n, "a", at, nil)
	at <- true // it is running
	behind, err := n.join(&job{key: "b", over: make(chan struct{})})
	require.NoError(t, err)
	go func() { ended <- s.call("DELETE", "/v1/sessions/"+n.ID, "") }()
	<-n.ctx.Done()
	require.Regexp(t, "^429 .*is being removed; ask again in a moment", begin())
	close(at)
	require.Contains(t, <-ended, "200 ")
	require.ErrorContains(t, n.explain(behind.err), "there is no session")
	require.Contains(t, begin(), "200 ")
	other := "/v1/sessions/" + n.ID + "/finish"
	require.Contains(t, s.call("POST", other, `{}`), "200 ")
	require.Contains(t, s.call("POST", other, `{"serve_as":"x"}`), "409 ", "a finished session cannot be finished with another serve_as")
	require.Contains(t, s.call("POST", other, `{}`), "200 ")
}
