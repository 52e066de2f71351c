package watch

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"
)

// Prometheus' own parser reads the values, which are those of the last rows, also in a run that goes back.
func TestMetricsOfRuns(t *testing.T) {
	root := t.TempDir()
	dir := newRun(t, filepath.Join(root, `a "b"\`), 1)
	newRun(t, filepath.Join(root, "new"), 0)
	s, err := New(Options{Paths: []string{root}})
	require.NoError(t, err)
	look := func() string {
		code, text := get(t, s, "/metrics")
		require.Equal(t, http.StatusOK, code)
		problems, err := promlint.New(strings.NewReader(text)).Lint()
		require.NoError(t, err)
		require.Empty(t, problems)
		return text
	}
	const head = `# HELP grpo_run_up Whether a process trains the run.
# TYPE grpo_run_up gauge
grpo_run_up{run="a \"b\"\\"} 0
grpo_run_up{run="new"} 0
# HELP grpo_run_step Recorded steps of the run.
# TYPE grpo_run_step gauge
`
	const value = `grpo_run_value{run="a \"b\"\\",table=`
	text := look()
	require.True(t, strings.HasPrefix(text, head+`grpo_run_step{run="a \"b\"\\"} 1`+"\n"), text)
	require.Regexp(t, `(?m)^# TYPE grpo_watch_processor_seconds_total counter\ngrpo_watch_processor_seconds_total \d+\.\d+$`, text)
	require.NotContains(t, look(), "grpo_watch_processor_seconds_total 0.000000\n", "earlier requests are counted")
	require.True(t, strings.HasSuffix(text, value+"\"steps\",key=\"completions\"} 8\n"+value+"\"steps\",key=\"mean_reward\"} 0.1\n"), text)

	logs := filepath.Join(dir, "metrics.jsonl")
	before, err := os.ReadFile(logs)
	require.NoError(t, err)
	step(t, dir, 2)
	write(t, dir, "train_log.jsonl", `{"step":2,"total_s":1.5}`+"\n")
	write(t, dir, "metrics.jsonl", string(before)+`{"step":2,"mean_reward":-1e-07,"updated":true}`+"\n"+
		`{"kind":"evaluation","step":2,"pass@1":0.5}`+"\n"+`{"step":3,"mea`)
	text = look()
	require.True(t, strings.HasSuffix(text, value+"\"evaluations\",key=\"pass@1\"} 0.5\n"+value+"\"steps\",key=\"mean_reward\"} -1e-07\n"+
		value+"\"steps\",key=\"updated\"} 1\n"+value+"\"timing\",key=\"total_s\"} 1.5\n"), text)

	write(t, dir, "metrics.jsonl", string(before))
	require.Contains(t, look(), value+`"steps",key="mean_reward"} 0.1`)
	write(t, dir, "metrics.jsonl", "no record\n")
	require.NotContains(t, look(), "grpo_run_value{")
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, s.look(true))
	require.NotContains(t, look(), "b")
}

// Prometheus keeps no cookies: the ticket in the address is enough.
func TestMetricsWithATicket(t *testing.T) {
	root := t.TempDir()
	newRun(t, filepath.Join(root, "one"), 1)
	s, err := New(Options{Paths: []string{root}, Authorize: Ticket("secret")})
	require.NoError(t, err)
	code, text := get(t, s, "/metrics?ticket=secret")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, text, "grpo_run_step{")
	for _, path := range []string{"/metrics", "/metrics?ticket=other"} {
		code, _ = get(t, s, path)
		require.Equal(t, http.StatusForbidden, code)
	}
	code, _ = get(t, s, "/?ticket=secret")
	require.Equal(t, http.StatusSeeOther, code, "in a browser it does not stay in the address")
}

// slowClient is a client that reads slowly.
type slowClient struct {
	*httptest.ResponseRecorder
	free  func() bool // reports whether others are served meanwhile
	alone bool
}

func (w *slowClient) Write(text []byte) (int, error) {
	w.alone = w.alone || !w.free()
	return w.ResponseRecorder.Write(text)
}

func TestNobodyWaitsForASlowReader(t *testing.T) {
	s, err := New(Options{Paths: []string{newRun(t, filepath.Join(t.TempDir(), "run"), 1)}})
	require.NoError(t, err)
	w := &slowClient{ResponseRecorder: httptest.NewRecorder(), free: func() bool {
		free := s.gauges.mu.TryLock()
		if free {
			s.gauges.mu.Unlock()
		}
		return free
	}}
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, metricsPath, nil))
	require.Contains(t, w.Body.String(), "grpo_run_up")
	require.False(t, w.alone)
}
