package sessions

import (
	"fmt"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/rundir"
	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
)

// idleServer is a server that does not compute, with a session as after a restart.
func idleServer(t *testing.T, o Options) (*Server, *session) {
	o.Store = t.TempDir()
	s, err := New(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s, newStoredSession(t, s, record{ID: "a"})
}

func newStoredSession(t *testing.T, s *Server, r record) *session {
	n := newSession(s, r)
	require.NoError(t, n.create(""))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[n.ID] = n
	return n
}

// A long poll is answered with the current state as soon as the server is to stop.
func TestDrainEndsPolls(t *testing.T) {
	s, n := idleServer(t, Options{PollTimeout: time.Hour})
	began, end := make(chan bool), make(chan bool)
	n.jobs["x"] = &job{key: "x", over: make(chan struct{})} // it is running
	answer := make(chan *httptest.ResponseRecorder)
	go func() {
		w := httptest.NewRecorder()
		close(began)
		if err := n.do(w, httptest.NewRequest("POST", "/", nil), "x", "", nil); err != nil {
			w.Code = 0
		}
		answer <- w
		close(end)
	}()
	<-began
	s.Drain()
	s.Drain()
	require.Equal(t, 202, (<-answer).Code)
	<-end
	close(n.jobs["x"].over)
	n.jobs["x"].answer = []byte("{}")
	w := httptest.NewRecorder()
	require.NoError(t, n.do(w, httptest.NewRequest("POST", "/", nil), "x", "", nil))
	require.Equal(t, "{}\n", w.Body.String(), "a finished job is answered")
}

// If there is no room for what would be written, the request is refused.
func TestNoRoomForSessions(t *testing.T) {
	s, n := idleServer(t, Options{CheckSpace: func() error { return badinput.Errorf("the store is full") }})
	err := s.trainStep(httptest.NewRecorder(), httptest.NewRequest("POST", "/", strings.NewReader(`{"step":1}`)), n)
	require.ErrorContains(t, err, "the store is full")
	err = s.save(httptest.NewRecorder(), httptest.NewRequest("POST", "/", strings.NewReader(`{}`)), n)
	require.ErrorContains(t, err, "the store is full")
}

// Errors for clients about the server's trouble: a full disk may have room later, and other errors reveal nothing of the machine.
func TestTroubleOfTheMachine(t *testing.T) {
	_, n := idleServer(t, Options{})
	for errno, want := range map[syscall.Errno]string{
		syscall.ENOSPC: "429 the disk of the store is full", syscall.EDQUOT: "429 the disk of the store is full",
		syscall.EROFS: "500 the server failed; its log says why",
	} {
		for _, err := range []error{
			rundir.WithOtherDirHint(&fs.PathError{Op: "write", Path: n.file("run/.metrics"), Err: errno}),
			fmt.Errorf("%s: %w; type run_dir=%s", n.dir, errno, n.dir),
		} {
			got := refusal.FromError(n.explain(err))
			require.Contains(t, fmt.Sprint(got.Status, " ", got.Message), want)
			require.NotContains(t, got.Message, "run")
		}
	}
	require.Equal(t, 400, refusal.FromError(n.explain(badinput.Errorf("a prompt is too long"))).Status)
}

// Finished sessions without a name are removed once nobody uses them.
func TestFinishedSessionsGo(t *testing.T) {
	s, _ := idleServer(t, Options{}) // sweeps only when called
	s.Retention = time.Hour
	newStoredSession(t, s, record{ID: "finished", Finished: true})
	newStoredSession(t, s, record{ID: "served", Finished: true, ServedAs: "mine"})
	asked := newStoredSession(t, s, record{ID: "asked", Finished: true})
	for _, n := range s.sessions {
		long := time.Now().Add(-2 * time.Hour)
		require.NoError(t, os.Chtimes(n.file(recordFile), long, long))
	}
	require.NoError(t, asked.touch())
	s.sweep(time.Now())
	require.Len(t, s.sessions, 3)
	require.Nil(t, s.sessions["finished"])
	entries, err := os.ReadDir(s.Store)
	require.NoError(t, err)
	require.Len(t, entries, 3)
}

// When a server begins, it removes the remains of killed processes: of a session being created, of a save and of a record; and nothing
// else.
func TestRemainsOfKilledSavesGo(t *testing.T) {
	s, n := idleServer(t, Options{})
	require.NoError(t, n.write(func(r *record) { r.Saved = []int{3} }))
	for _, name := range []string{filepath.Join("saved", "3"), filepath.Join("saved", ".4.1490126072"), "../.b.77", "run"} {
		require.NoError(t, os.MkdirAll(n.file(name), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(n.file(name), "adapter_config.json"), []byte("half"), 0o600))
	}
	require.NoError(t, os.WriteFile(n.file(".session.json.123.tmp"), []byte("{"), 0o600))
	names := func(dir string) (all []string) {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, e := range entries {
			all = append(all, e.Name())
		}
		return all
	}
	for range 2 { // a second sweep does no harm
		again, err := New(Options{Store: filepath.Dir(s.Store)})
		require.NoError(t, err)
		require.Equal(t, []int{3}, again.sessions["a"].record.Saved)
		require.NoError(t, again.Close())
		require.Equal(t, []string{"a"}, names(s.Store))
		require.Equal(t, []string{"run", "saved", "session.json"}, names(n.dir))
		require.Equal(t, []string{"3"}, names(n.file("saved")))
		require.FileExists(t, filepath.Join(n.savedDir(3), "adapter_config.json"))
	}
}
