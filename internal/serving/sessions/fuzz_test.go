package sessions

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/internal/remote"
	"github.com/seed-7879b91d/grpo/internal/serving"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/sampler"
)

// sessionCalls are the calls of a session, one of which a fuzzer picks.
var sessionCalls = []string{"POST /v1/sessions", "POST /v1/sessions/ID/train_step", "POST /v1/sessions/ID/sample",
	"POST /v1/sessions/ID/save", "POST /v1/sessions/ID/finish", "GET /v1/sessions/ID", "GET /v1/sessions/ID/saved/PART",
	"DELETE /v1/sessions/PART", "GET /v1/sessions/PART"}

const validRow = `{"id":"a","prompt":"Print 1.","tests":[{"stdin":"","stdout":"1\n","time_limit_ms":9}]}`

// validBodies are valid bodies, by call.
var validBodies = map[uint8]string{
	0: `{"model":"tiny","settings":{"learning_rate":1e-4,"lora_targets":["q_proj"],"loss":"grpo"},"problems":[` + validRow + `]}`,
	1: `{"step":1,"problems":[` + validRow + `],"iterations":2}`, 2: `{"problems":[` + validRow + `],"n":2,"temperature":0.5}`,
	3: `{"serve_as":"mine"}`, 4: `{}`,
}

// Any body to any call is read to its end and refused with a reason; valid ones are refused because the server has stopped. Files are
// written only in the store.
func FuzzSessions(f *testing.F) {
	b := backendtest.CPU(f, cpu.Options{})
	host, err := serving.Open(f.Context(), serving.Options{Backend: b, Models: []serving.NamedDir{{Name: "tiny", Dir: "tiny"}},
		Sampling: sampler.Options{MaxLength: 128, MaxSequences: 4, CacheBytes: 4 << 20}})
	require.NoError(f, err)
	above := f.TempDir()
	s, err := New(Options{Store: filepath.Join(above, "store"), Config: base(f), Host: host,
		Models: []serving.NamedDir{{Name: "tiny", Dir: "tiny"}}})
	require.NoError(f, err)
	mux := http.NewServeMux()
	s.Register(mux)
	r := httptest.NewRequest("POST", "/v1/sessions", nil)
	n, err := s.begin(r, remote.BeginRequest{}, "")
	require.NoError(f, err)
	f.Cleanup(func() {
		require.NoError(f, s.Close())
		require.NoError(f, host.Close())
		require.NoError(f, b.Close())
	})
	s.stop()
	require.ErrorIs(f, n.ctx.Err(), context.Canceled)

	for i, body := range validBodies {
		f.Add(i, "0", body)
	}
	f.Add(uint8(6), "../../x", "")
	f.Fuzz(func(t *testing.T, call uint8, part, body string) {
		method, path, _ := strings.Cut(sessionCalls[int(call)%len(sessionCalls)], " ")
		if part == n.ID {
			return
		}
		r := httptest.NewRequest(method, "/", strings.NewReader(body))
		r.URL.Path = strings.NewReplacer("ID", n.ID, "PART", part).Replace(path)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if w.Code == http.StatusServiceUnavailable {
			require.Contains(t, w.Body.String(), "the server is stopping")
		} else {
			require.Less(t, w.Code, 500, w.Body)
		}
		if w.Code >= 400 {
			require.Less(t, w.Body.Len(), 8000)
			require.NotContains(t, w.Body.String(), above, "errors must not show paths")
		}
		s.mu.Lock()
		for id, other := range s.sessions {
			if id != n.ID { // there is room for the next
				delete(s.sessions, id)
				require.NoError(t, os.RemoveAll(other.dir))
			}
		}
		s.mu.Unlock()
		left, err := os.ReadDir(above)
		require.NoError(t, err)
		require.Len(t, left, 1)
	})
}
