package watch

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// changeRecorder records when a browser is told of a change.
type changeRecorder struct {
	header http.Header
	told   chan time.Time
}

func (e changeRecorder) Header() http.Header { return e.header }
func (e changeRecorder) WriteHeader(int)     {}
func (e changeRecorder) Flush()              {}

func (e changeRecorder) Write(text []byte) (int, error) {
	if strings.HasPrefix(string(text), "data:") {
		e.told <- time.Now()
	}
	return len(text), nil
}

// following is a server over a run of one step, and a browser that follows it, with a clock that advances when all wait.
func following(t *testing.T, o Options, test func(t *testing.T, s *Server, dir string, told <-chan time.Time)) {
	t.Helper()
	dir := newRun(t, filepath.Join(t.TempDir(), "run"), 1)
	synctest.Test(t, func(t *testing.T) {
		o.Paths = []string{dir}
		s, err := New(o)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go s.Watch(ctx)
		told := make(chan time.Time, 1000)
		go s.ServeHTTP(changeRecorder{http.Header{}, told}, httptest.NewRequest(http.MethodGet, "/events?of=run", nil).WithContext(ctx))
		synctest.Wait()
		test(t, s, dir, told)
	})
}

// takes sets the time to draw a page, which the clock of these tests cannot measure.
func (s *Server) takes(took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took = took
}

// A browser gets a step within a second after its line is complete, whenever that is, and however long drawing a page takes.
func TestAStepIsSeenWithinASecond(t *testing.T) {
	for _, took := range []time.Duration{0, 5 * time.Millisecond, 20 * time.Millisecond, 250 * time.Millisecond} {
		following(t, Options{}, func(t *testing.T, s *Server, dir string, told <-chan time.Time) {
			longest := time.Duration(0)
			for i := 2; i <= 9; i++ {
				s.takes(took)
				time.Sleep(time.Duration(i*i*i) * 7 * time.Millisecond) // soon after the last step, and late
				written := time.Now()
				step(t, dir, i)
				select {
				case at := <-told:
					longest = max(longest, at.Sub(written)+took)
				case <-time.After(time.Minute):
					require.Fail(t, "the browser was told of no change within a minute")
				}
				_, page := get(t, s, "/run/run")
				require.Contains(t, page, fmt.Sprintf("%d of 9", i), "the page drawn then has the step")
			}
			require.Less(t, longest, time.Second, "a page takes %v", took)
		})
	}
}

// Steps in close succession are announced together, so that drawing takes a small part of the time.
func TestStepsAreToldTogether(t *testing.T) {
	const took, all = 20 * time.Millisecond, 30 * time.Second
	for _, gentle := range []bool{false, true} {
		following(t, Options{LowPriority: gentle}, func(t *testing.T, s *Server, dir string, told <-chan time.Time) {
			for until := time.Now().Add(all); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
				s.takes(took)
				step(t, dir, 2)
			}
			apart := pauseFactor * took
			if gentle {
				apart = gentlePauseFactor * took
			}
			require.LessOrEqual(t, len(told), int(all/apart)+1)
			require.Greater(t, len(told), int(all/apart)/2)
		})
	}
}
