package watch

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/report"
)

// pageEvent is an event to a browser, and its time.
type pageEvent struct {
	at    time.Time
	text  string
	steps []report.Latest
}

// eventPage receives all events.
type eventPage struct {
	t      *testing.T
	header http.Header
	heard  chan pageEvent
}

func (b eventPage) Header() http.Header { return b.header }
func (b eventPage) WriteHeader(int)     {}
func (b eventPage) Flush()              {}

func (b eventPage) Write(text []byte) (int, error) {
	s := pageEvent{at: time.Now(), text: string(text)}
	if _, list, ok := strings.Cut(s.text, "event: steps\ndata: "); ok {
		require.NoError(b.t, json.Unmarshal([]byte(list), &s.steps))
	}
	b.heard <- s
	return len(text), nil
}

// Beside a trainer, a browser gets the numbers of each step at once, however long drawing takes and however many steps there are, and no
// page is drawn for that.
func TestStepsAreToldInNumbers(t *testing.T) {
	for _, behind := range []int{1, 3000} {
		dir := newRun(t, filepath.Join(t.TempDir(), "run"), 0)
		var lines strings.Builder
		for i := range behind {
			fmt.Fprintf(&lines, `{"step":%d,"mean_reward":0.5,"completions":8}`+"\n", i+1)
		}
		write(t, dir, "metrics.jsonl", lines.String())
		synctest.Test(t, func(t *testing.T) {
			s, err := New(Options{Paths: []string{dir}, LowPriority: true})
			require.NoError(t, err)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			go s.Watch(ctx)
			heard := make(chan pageEvent, 100)
			go s.ServeHTTP(eventPage{t, http.Header{}, heard}, httptest.NewRequest(http.MethodGet, "/events?of=run", nil).WithContext(ctx))
			first := <-heard
			require.NotEmpty(t, first.steps)
			require.Equal(t, behind, first.steps[len(first.steps)-1].Step, "the last step that the page may have")
			s.takes(time.Second)
			changed := 0
			for i := 1; i <= 9; i++ {
				time.Sleep(time.Duration(i*i) * 17 * time.Millisecond)
				written := time.Now()
				write(t, dir, "metrics.jsonl", lines.String()+fmt.Sprintf(`{"step":%d,"mean_reward":0.%d,"completions":8}`+"\n", behind+i, i))
				told := <-heard
				for ; strings.HasPrefix(told.text, "data: changed"); told = <-heard {
					changed++
				}
				require.LessOrEqual(t, told.at.Sub(written), minPause)
				require.Len(t, told.steps, 1)
				require.Equal(t, behind+i, told.steps[0].Step)
				require.Equal(t, fmt.Sprintf("0.%d00", i), told.steps[0].Charts["Mean reward"][0].Text)
				require.Less(t, len(told.text), 8000)
			}
			require.LessOrEqual(t, changed, 1, "the pause is 300 times the drawing time")
			require.Empty(t, s.drawn, "no page was drawn for the news")
		})
	}
}

// A page requested by many browsers at once is drawn once; a newer one is announced only some time after the last was drawn.
func TestAPageIsDrawnOnceForAll(t *testing.T) {
	dir := newRun(t, filepath.Join(t.TempDir(), "run"), 1)
	asked, drawing, all := 0, make(chan bool, 20), make(chan bool)
	write(t, dir, "rollouts.jsonl", `{"step":1,"group":0,"problem":"p","text":"x","score":{"reward":1}}`+"\n")
	s, err := New(Options{Paths: []string{dir}, Statement: func(string, string) string {
		asked++
		drawing <- true
		<-all
		return "what p asks"
	}})
	require.NoError(t, err)
	var came, left sync.WaitGroup
	for i := range 20 {
		came.Add(1)
		left.Go(func() {
			came.Done()
			if _, page := get(t, s, "/run/run"); !strings.Contains(page, "what p asks") {
				t.Error("a page without its problem")
			}
		})
		if i == 0 {
			<-drawing
		}
	}
	came.Wait()
	for range 1000 {
		runtime.Gosched() // whoever does not wait has begun by now
	}
	close(all)
	left.Wait()
	require.Equal(t, 1, asked)

	at := time.Now()
	s.drawn["run"].at = at
	s.takes(20 * time.Millisecond)
	s.LowPriority = true
	require.InDelta(t, 6, s.pause("run", time.Time{}).Seconds(), 2)
	require.Equal(t, minPause, s.pause("other", time.Time{}))
}
