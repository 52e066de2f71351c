package remote

import (
	"archive/tar"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/disk"
)

// A download is on disk when Download returns: every file was synced before the folder appeared.
func TestADownloadIsSynced(t *testing.T) {
	files := map[string]string{"adapter_config.json": "{}", "adapter_model.safetensors": "numbers"}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "/v1/sessions/s/saved/3", r.URL.Path)
		out := tar.NewWriter(w)
		for name, text := range files {
			require.NoError(t, out.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}))
			_, err := out.Write([]byte(text))
			require.NoError(t, err)
		}
		require.NoError(t, out.Close())
	}))
	defer web.Close()
	synced := map[string]string{}
	last := ""
	disk.Observer = func(op disk.Op) {
		switch op.Kind {
		case disk.Synced:
			last = op.Path
		case disk.Renamed:
			if op.Path == last {
				synced[filepath.Base(op.To)] = op.To
			}
		}
	}
	defer func() { disk.Observer = nil }()
	s, dir := &Session[struct{}]{o: Options{URL: web.URL}, ID: "s"}, filepath.Join(t.TempDir(), "adapter")
	require.NoError(t, s.Download(t.Context(), Saved{Step: 3}, dir))
	for name, text := range files {
		got, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, text, string(got))
		require.NotEmpty(t, synced[name], name)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, len(files))
}

// A proxy may have no server behind it for a while, or a shorter time-out than a step: the call is repeated, and counts once.
func TestAProxyWithoutAServer(t *testing.T) {
	var keys []string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		if n := len(keys); n < 3 {
			http.Error(w, "<html>", []int{http.StatusBadGateway, http.StatusGatewayTimeout}[n-1])
			return
		}
		_, err := w.Write([]byte(`{"steps":4}`))
		require.NoError(t, err)
	}))
	defer web.Close()
	s, err := Open[struct{}](t.Context(), Options{URL: web.URL, ID: "s"})
	require.NoError(t, err)
	require.Equal(t, 4, s.StepsDone())
	require.Equal(t, []string{keys[0], keys[0], keys[0]}, keys)
}

// A permanent error is returned at once, and the server's last answer is not lost when waiting ends.
func TestASessionSaysWhyThereIsNone(t *testing.T) {
	for _, u := range []string{"", "127.0.0.1:8000", "localhost:8000", "ftp://127.0.0.1", "http://", ":::"} {
		_, err := Open[struct{}](t.Context(), Options{URL: u})
		require.ErrorContains(t, err, "expected that of a server, such as http://127.0.0.1:8000", u)
		require.True(t, badinput.Is(err))
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":{"message":"8 sessions are open"}}`, http.StatusTooManyRequests)
	}))
	defer web.Close()
	ctx, stop := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, stop)
	_, err := Open[struct{}](ctx, Options{URL: web.URL})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "8 sessions are open")
}
