package gate

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
)

// echoBody is a handler that returns the body.
var echoBody = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		refusal.Write(w, err)
		return
	}
	w.Header().Set("Asker", KeyName(r.Context()))
	w.Write(text)
})

func gateOf(t testing.TB, next http.Handler, o Options) *Gate {
	t.Helper()
	g, err := New(next, o)
	require.NoError(t, err)
	return g
}

// send makes a request with headers, each name followed by its value.
func send(h http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "localhost:8000"
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func keysOf(t testing.TB, names ...string) (k *Keys, shown []string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys")
	text := "# who may ask\n\n"
	for _, name := range names {
		key, line, err := NewKey(name)
		require.NoError(t, err)
		require.NotContains(t, line, key)
		shown = append(shown, key)
		text += line + "\n"
	}
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	k, err := ReadKeys(file)
	require.NoError(t, err)
	return k, shown
}

func TestKeys(t *testing.T) {
	k, shown := keysOf(t, "ada", "bob")
	var log bytes.Buffer
	g := gateOf(t, echoBody, Options{Keys: k, Log: slog.New(slog.NewJSONHandler(&log, nil))})
	for _, headers := range [][]string{nil, {"Authorization", "Bearer "}, {"Authorization", "Bearer sk-wrong"}, {"Authorization", shown[0]},
		{"Authorization", "Basic " + shown[0]}, {"X-Api-Key", shown[0] + "x"}} {
		for _, path := range []string{"/v1/models", "/metrics", "/"} {
			w := send(g, "POST", path, "secret", headers...)
			require.Equal(t, http.StatusUnauthorized, w.Code, "%v", headers)
			require.Contains(t, w.Body.String(), `"type":"authentication_error"`)
		}
	}
	require.Equal(t, "hi", send(g, "POST", "/v1/x", "hi", "Authorization", "Bearer "+shown[0]).Body.String())
	require.Equal(t, "hi", send(g, "POST", "/v1/x", "hi", "authorization", "bearer "+shown[0]).Body.String())
	w := send(g, "POST", "/v1/x", "hi", "X-Api-Key", shown[1])
	require.Equal(t, "hi", w.Body.String())
	require.Equal(t, "bob", w.Header().Get("Asker"))
	require.Equal(t, 200, send(g, "GET", "/healthz", "").Code)
	require.Contains(t, log.String(), `"key":"bob","method":"POST","path":"/v1/x","status":200,"bytes":2,`)
	for _, secret := range append(shown, "secret", "sk-wrong") {
		require.NotContains(t, log.String(), secret)
	}
}

// A flood of wrong keys gives at most ten lines a second in the log, and is counted in full in the metrics.
func TestTheLogOfWrongKeys(t *testing.T) {
	k, shown := keysOf(t, "ada")
	var log bytes.Buffer
	g := gateOf(t, echoBody, Options{Keys: k, Log: slog.New(slog.NewJSONHandler(&log, nil))})
	g.strangers.second = time.Now().Add(time.Hour) // the second of the limit must not end, however slow the machine is
	for range 500 {
		require.Equal(t, 401, send(g, "GET", "/v1/models", "", "X-Api-Key", "wrong").Code)
	}
	g.strangers.second = time.Time{}
	send(g, "GET", "/v1/models", "", "X-Api-Key", "wrong")
	require.Contains(t, log.String(), `"msg":"more requests had no key that is known","count":4`)
	require.Less(t, strings.Count(log.String(), `"status":401`), 490)
	require.Contains(t, send(g, "GET", "/metrics", "", "X-Api-Key", shown[0]).Body.String(),
		`grpo_http_requests_total{path="/v1/models",status="401"} 501`)
	began := time.Now()
	var s strangerLog
	for i := range mostPerSecond + 3 {
		told, untold := s.next(began)
		require.Equal(t, i < mostPerSecond, told)
		require.Zero(t, untold)
	}
	told, untold := s.next(began.Add(time.Second))
	require.True(t, told)
	require.Equal(t, 3, untold)
}

// A line of the keys says whether the key may change what is served.
func TestKeysOfAdmins(t *testing.T) {
	k, shown := keysOf(t, "ada", "bob")
	(*k.list.Load())[0].admin = true
	for i, want := range []string{"true", "false"} {
		g := gateOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, Admin(r.Context())) }), Options{Keys: k})
		require.Equal(t, want, send(g, "GET", "/", "", "X-Api-Key", shown[i]).Body.String())
	}
	_, line, err := NewKey("ada")
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(file, []byte(line+" admin\n"), 0o600))
	k, err = ReadKeys(file)
	require.NoError(t, err)
	require.True(t, (*k.list.Load())[0].admin)

	// The file may be rewritten while the server runs; a faulty file changes nothing.
	bob, line, err := NewKey("bob")
	require.NoError(t, err)
	g := gateOf(t, echoBody, Options{Keys: k})
	require.Equal(t, http.StatusUnauthorized, send(g, "GET", "/", "", "X-Api-Key", bob).Code)
	require.NoError(t, os.WriteFile(file, []byte(line), 0o600))
	require.NoError(t, k.Reread())
	require.Equal(t, http.StatusOK, send(g, "GET", "/", "", "X-Api-Key", bob).Code)
	for _, text := range []string{"", "nonsense", strings.Repeat("a", 1<<17)} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		require.True(t, badinput.Is(k.Reread()))
		require.Equal(t, http.StatusOK, send(g, "GET", "/", "", "X-Api-Key", bob).Code)
	}
}

func TestFilesOfKeys(t *testing.T) {
	_, line, err := NewKey("ada")
	require.NoError(t, err)
	for text, want := range map[string]string{
		"": "no keys", "sk-abc ada": ":1: expected the SHA-256",
		line + "\n" + line: ":2: there is another key named ada",
		line + "\n" + strings.Replace(line, " ada", " bob admin", 1): ":2: bob has the key of ada",
		strings.TrimSuffix(line, "ada"):                              ":1: expected", line + " b": ":1: expected",
		line + " admin x": ":1: expected",
	} {
		file := filepath.Join(t.TempDir(), "keys")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := ReadKeys(file)
		require.ErrorContains(t, err, want)
		require.True(t, badinput.Is(err))
	}
	_, err = ReadKeys(filepath.Join(t.TempDir(), "none"))
	require.ErrorContains(t, err, "grpo serve --new-key NAME")
	_, _, err = NewKey("a b")
	require.True(t, badinput.Is(err))
}

// A page of another site cannot send requests, whatever name it uses for this machine.
func TestPages(t *testing.T) {
	g := gateOf(t, echoBody, Options{Hosts: []string{"localhost", "127.0.0.1", "::1"}, Origins: []string{"https://good.example"}})
	evil := httptest.NewRequest("GET", "/v1/models", nil)
	for host, want := range map[string]int{"evil.example": 421, "evil.example:8000": 421, "LOCALHOST:8000": 200, "[::1]:8000": 200,
		"127.0.0.1": 200, "localhost.evil.example": 421} {
		evil.Host = host
		w := httptest.NewRecorder()
		g.ServeHTTP(w, evil)
		require.Equal(t, want, w.Code, host)
	}
	w := send(g, "POST", "/v1/x", "a", "Origin", "http://evil.example")
	require.Equal(t, http.StatusForbidden, w.Code)
	require.Empty(t, w.Header().Get("Access-Control-Allow-Origin"))
	require.Equal(t, http.StatusForbidden, send(g, "OPTIONS", "/v1/x", "", "Origin", "http://evil.example").Code)
	require.Equal(t, http.StatusForbidden, send(g, "POST", "/v1/x", "a", "Sec-Fetch-Site", "cross-site").Code)
	require.Equal(t, 200, send(g, "POST", "/v1/x", "a", "Origin", "http://localhost:8000").Code, "an allowed origin is served")

	w = send(g, "OPTIONS", "/v1/x", "", "Origin", "https://good.example", "Access-Control-Request-Headers", "authorization, x-b\r\nc")
	require.Equal(t, http.StatusNoContent, w.Code)
	require.Equal(t, "https://good.example", w.Header().Get("Access-Control-Allow-Origin"))
	require.Equal(t, "authorization, x-bc", w.Header().Get("Access-Control-Allow-Headers"))
	require.Equal(t, "600", w.Header().Get("Access-Control-Max-Age"))
	w = send(g, "POST", "/v1/x", "a", "Origin", "https://good.example")
	require.Equal(t, 200, w.Code)
	require.Equal(t, "https://good.example", w.Header().Get("Access-Control-Allow-Origin"))
	require.Equal(t, "Origin", w.Header().Get("Vary"))
	require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
	require.Contains(t, w.Header().Get("Access-Control-Expose-Headers"), "Retry-After")
}

func TestBodies(t *testing.T) {
	g := gateOf(t, echoBody, Options{MaxBody: 10})
	require.Equal(t, 200, send(g, "POST", "/", "0123456789").Code)
	require.Equal(t, http.StatusRequestEntityTooLarge, send(g, "POST", "/", "0123456789a").Code)
	// A body without a length that never ends.
	r := httptest.NewRequest("POST", "/", io.LimitReader(endless{}, 1<<30))
	r.ContentLength = -1
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	require.Equal(t, http.StatusRequestEntityTooLarge, w.Code)
	require.Contains(t, w.Body.String(), "larger than the 10 bytes")
}

// Lines that the log left out are counted once.
func TestStrangersAreCountedOnce(t *testing.T) {
	var s strangerLog
	at := time.Unix(0, 0)
	for second := range 3 {
		for i := range mostPerSecond + 2 {
			told, untold := s.next(at.Add(time.Duration(second) * time.Second))
			require.Equal(t, i < mostPerSecond, told)
			require.Equal(t, second > 0 && i == 0, untold == 2, "%d were left out", untold)
		}
	}
}

// The log has only the beginning of a body, and only once.
func TestBodiesInTheLog(t *testing.T) {
	var log bytes.Buffer
	g := gateOf(t, echoBody, Options{LogBodies: true, Log: slog.New(slog.NewJSONHandler(&log, nil))})
	require.Equal(t, 200, send(g, "POST", "/", strings.Repeat("q", 3*mostLogged/2)).Code)
	require.Equal(t, 1, strings.Count(log.String(), `"msg":"body"`))
	require.Contains(t, log.String(), `"text":"`+strings.Repeat("q", mostLogged)+`"`)
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestRequestIDs(t *testing.T) {
	g := gateOf(t, echoBody, Options{})
	require.Equal(t, "a-1.b:c_d", send(g, "GET", "/", "", "X-Request-Id", "a-1.b:c_d").Header().Get("X-Request-Id"))
	longest := strings.Repeat("a", 128)
	require.Equal(t, longest, send(g, "GET", "/", "", "X-Request-Id", longest).Header().Get("X-Request-Id"))
	for _, odd := range []string{"", "a b", "a\"b", "ä", strings.Repeat("a", 129)} {
		require.Regexp(t, "^req-[a-z0-9]{26}$", send(g, "GET", "/", "", "X-Request-Id", odd).Header().Get("X-Request-Id"))
	}
}

// The requests of a key that run at once and that wait are bounded; another key has bounds of its own.
func TestTurns(t *testing.T) {
	k, shown := keysOf(t, "ada", "bob")
	at, goOn := make(chan string, 10), make(chan bool)
	g := gateOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { at <- r.URL.Path; <-goOn }),
		Options{Keys: k, MaxConcurrent: 1, MaxQueued: 1})
	var all sync.WaitGroup
	ask := func(key, path string) {
		all.Go(func() { send(g, "POST", path, "", "X-Api-Key", key) })
	}
	ask(shown[0], "/1")
	require.Equal(t, "/1", <-at)
	ask(shown[0], "/2")
	require.Eventually(t, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.lanes["ada"].waiting == 1
	}, 10*time.Second, time.Millisecond)
	w := send(g, "POST", "/3", "", "X-Api-Key", shown[0])
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.Equal(t, "1", w.Header().Get("Retry-After"))
	require.Contains(t, w.Body.String(), `"code":"rate_limit_exceeded"`)
	ask(shown[1], "/4")
	require.Equal(t, "/4", <-at)
	close(goOn)
	require.Equal(t, "/2", <-at)
	all.Wait()
	require.Contains(t, send(g, "GET", "/metrics", "", "X-Api-Key", shown[0]).Body.String(), "grpo_http_busy_total 1")

	leave, err := g.enter(t.Context(), "ada")
	require.NoError(t, err)
	defer leave()
	ctx, stop := context.WithCancelCause(t.Context())
	stop(refusal.Errorf(http.StatusServiceUnavailable, "the server is stopping"))
	_, err = g.enter(ctx, "ada")
	require.ErrorContains(t, err, "the server is stopping", "a waiting request gets the reason")
}

// Paths and statuses are counted; clients cannot make the table grow without bound.
func TestMetrics(t *testing.T) {
	g := gateOf(t, echoBody, Options{})
	require.Equal(t, []int{4 << 20, 64, 256}, []int{int(g.MaxBody), g.MaxConcurrent, g.MaxQueued})
	for i := range 50 {
		send(g, "GET", fmt.Sprintf("/v1/models/%d", i), "")
		send(g, "GET", fmt.Sprintf("/%d", i), "")
	}
	g.Metrics.CountAnswer("tiny", time.Second)
	g.Metrics.CountTokens("tiny", 5, 2, 7)
	text := send(g, "GET", "/metrics", "").Body.String()
	for _, line := range []string{`grpo_http_requests_total{path="/v1/models/*",status="200"} 50`,
		`grpo_http_requests_total{path="other",status="200"} 50`,
		`grpo_tokens_total{kind="completion",model="tiny"} 7`, "grpo_http_active_requests 1"} {
		require.Contains(t, text, line)
	}
}
