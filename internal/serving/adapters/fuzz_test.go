package adapters

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/internal/serving"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/sampler"
)

// Only adapters in the directory can be loaded, and no answer says what else exists on the machine.
func FuzzAdapters(f *testing.F) {
	b := backendtest.CPU(f, cpu.Options{})
	host, err := serving.Open(f.Context(), serving.Options{Backend: b, Models: []serving.NamedDir{{Name: "tiny", Dir: "tiny"}},
		Sampling: sampler.Options{MaxLength: 64, MaxSequences: 2, CacheBytes: 4 << 20, Adapters: 2}})
	require.NoError(f, err)
	ended := make(chan error, 1)
	go func() { ended <- host.Run(context.Background()) }()
	f.Cleanup(func() {
		require.NoError(f, host.Close())
		require.NoError(f, <-ended)
		require.NoError(f, b.Close())
	})
	above, err := filepath.EvalSymlinks(f.TempDir())
	require.NoError(f, err)
	dir := filepath.Join(above, "adapters")
	base, err := host.Find("tiny")
	require.NoError(f, err)
	layout, err := lora.NewLayout(lora.Config{Rank: 1, Alpha: 1, Targets: lora.AllTargets()}, base.Language.Shape.LoRADims())
	require.NoError(f, err)
	for _, name := range []string{"adapters/one", "adapters/a/b", "secret"} {
		require.NoError(f, lora.New(layout).Save(filepath.Join(above, name), "tiny"))
	}
	require.NoError(f, os.Symlink(filepath.Join(above, "secret"), filepath.Join(dir, "link")))
	s := New(host, Options{Dir: dir})
	mux := http.NewServeMux()
	s.Register(mux)

	for call, body := range map[uint8]string{0: `{"lora_name":"mine","lora_path":"one"}`, 1: `{"lora_name":"mine"}`} {
		f.Add(call, "mine", body)
	}
	for _, path := range []string{"../secret", "link", "link/../../secret", dir + "/one", above + "/secret", "a/b/", "a//b", "one/../a/b"} {
		text, err := json.Marshal(loadRequest{Name: "x", Path: path, Inplace: true, Base: "tiny"})
		require.NoError(f, err)
		f.Add(uint8(0), "x", string(text))
	}
	calls := []string{"POST /v1/load_lora_adapter", "POST /v1/unload_lora_adapter", "DELETE /v1/models/"}
	f.Fuzz(func(t *testing.T, call uint8, name, body string) {
		method, path, _ := strings.Cut(calls[int(call)%len(calls)], " ")
		r := httptest.NewRequest(method, "/", strings.NewReader(body))
		if r.URL.Path = path; method == "DELETE" {
			r.URL.Path += name
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		require.Less(t, w.Code, 500, w.Body)
		require.Less(t, w.Body.Len(), len(body)+4000)
		if !strings.Contains(body, above) {
			require.NotContains(t, w.Body.String(), above)
		}
		var a loadRequest
		if json.Unmarshal([]byte(body), &a) != nil || w.Code != http.StatusOK || int(call)%len(calls) != 0 {
			return
		}
		require.True(t, within(t, dir, a.Path), "%q was loaded", a.Path)
		require.NoError(t, s.drop(t.Context(), "lora_name", a.Name))
	})
}

// within reports whether a path resolves to something in a directory.
func within(t *testing.T, dir, path string) bool {
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	whole, err := filepath.EvalSymlinks(path)
	require.NoError(t, err)
	return strings.HasPrefix(whole, dir+"/")
}
