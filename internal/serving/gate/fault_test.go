package gate

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// A handler that panics is logged with the place, and its client gets an error, or a response that is recognisably cut off.
func TestAHandlerThatPanics(t *testing.T) {
	var log bytes.Buffer
	g := gateOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/late":
			io.WriteString(w, "half")
		case "/v1/said":
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Length", "3")
		panic("a fault of ours")
	}), Options{Log: slog.New(slog.NewJSONHandler(&log, nil))})
	w := send(g, "POST", "/v1/early", "", "X-Request-Id", "one")
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.Contains(t, w.Body.String(), `"message":"the server failed; its log says why"`)
	require.Equal(t, strconv.Itoa(w.Body.Len()), w.Header().Get("Content-Length"), "and not the status of the intended response")
	require.Contains(t, log.String(), `"level":"ERROR"`)
	require.Contains(t, log.String(), `"id":"one","why":"a fault of ours"`)
	require.Contains(t, log.String(), "fault_test.go")

	log.Reset()
	require.PanicsWithValue(t, http.ErrAbortHandler, func() { send(g, "POST", "/v1/late", "") })
	require.Contains(t, log.String(), "a fault of ours")
	log.Reset()
	require.PanicsWithValue(t, http.ErrAbortHandler, func() { send(g, "POST", "/v1/said", "") })
	require.NotContains(t, log.String(), "ERROR")
	require.Contains(t, send(g, "GET", "/metrics", "").Body.String(), `grpo_http_active_requests 1`)
}
