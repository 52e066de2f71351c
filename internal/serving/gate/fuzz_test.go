package gate

import (
	"bufio"
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Without a key nobody gets in, every response is valid HTTP, and every request has a line in the log.
func FuzzRequest(f *testing.F) {
	key, line, err := NewKey("ada")
	require.NoError(f, err)
	file := filepath.Join(f.TempDir(), "keys")
	require.NoError(f, os.WriteFile(file, []byte(line), 0o600))
	keys, err := ReadKeys(file)
	require.NoError(f, err)
	f.Add("GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n\r\n")
	f.Add("POST /api/v1/../metrics HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: tml-x\r\nContent-Length: 2\r\n\r\n{}")
	f.Add("OPTIONS /v1/x HTTP/1.1\r\nHost: [::1]:80\r\nOrigin: https://a\r\nAccess-Control-Request-Headers: a\r\nX-Request-Id: \x7f\r\n\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		if err != nil || strings.Contains(text, key) {
			return
		}
		var log bytes.Buffer
		in := false
		inside := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { in = true })
		g := gateOf(t, inside, Options{Keys: keys, Hosts: []string{"localhost"},
			Origins: []string{"https://a"}, Log: slog.New(slog.NewJSONHandler(&log, nil))})
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		require.False(t, in)
		open := r.URL.Path == healthz || r.URL.Path == readyz || r.Method == http.MethodOptions
		require.True(t, open || w.Code >= 400, "%d", w.Code)
		require.NotContains(t, w.Header().Get("X-Request-Id"), "\n")
		require.LessOrEqual(t, strings.Count(log.String(), "\n"), 1)
		_, err = io.ReadAll(w.Body)
		require.NoError(t, err)
	})
}

// A file of keys is read, or refused in one line that does not quote its content.
func FuzzKeys(f *testing.F) {
	_, line, err := NewKey("ada")
	require.NoError(f, err)
	f.Add("# keys\n\n" + line + "\r\n")
	f.Add("secret ada\n" + line)
	file := filepath.Join(f.TempDir(), "keys")
	f.Fuzz(func(t *testing.T, text string) {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		k, err := ReadKeys(file)
		if err != nil {
			require.True(t, badinput.Is(err))
			require.NotContains(t, err.Error(), "\n")
			return
		}
		for _, known := range *k.list.Load() {
			require.NoError(t, checkKeyName(known.name))
		}
		require.NotEmpty(t, *k.list.Load())
	})
}
