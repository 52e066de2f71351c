package remote

import (
	"archive/tar"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/disk"
)

// What was downloaded is on the disk when Download returns: every file was synced before the folder appeared.
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
