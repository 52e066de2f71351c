package sources

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// serveModel is a Hub with one model. It returns a function that lists the requested files.
func serveModel(t *testing.T, files map[string]string) (fetched func() []string) {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	var mu sync.Mutex
	var names []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/models/o/m/revision/main" {
			var siblings []map[string]string
			for name := range files {
				siblings = append(siblings, map[string]string{"rfilename": name})
			}
			json.NewEncoder(w).Encode(map[string]any{"sha": commit, "siblings": siblings})
			return
		}
		name := strings.TrimPrefix(r.URL.Path, "/o/m/resolve/"+commit+"/")
		sum := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(files[name]), files[name]))
		w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:])+`"`)
		w.Header().Set("Content-Length", fmt.Sprint(len(files[name])))
		if r.Method == http.MethodGet {
			mu.Lock()
			names = append(names, name)
			mu.Unlock()
			w.Write([]byte(files[name]))
		}
	}))
	t.Cleanup(server.Close)
	for _, name := range []string{"HF_TOKEN", "HF_TOKEN_PATH", "HF_HUB_CACHE", "HF_HUB_OFFLINE"} {
		t.Setenv(name, "")
	}
	t.Setenv("HF_HOME", t.TempDir())
	t.Setenv("HF_ENDPOINT", server.URL)
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Sorted(slices.Values(names))
	}
}

// with adds files to those of every model, each with its name as content.
func with(more map[string]string, names ...string) map[string]string {
	files := map[string]string{"config.json": "{}", "tokenizer.json": "{ }", "README.md": "words"}
	for _, name := range names {
		files[name] = name
	}
	for name, text := range more {
		files[name] = text
	}
	return files
}

// Copies of the weights in other formats, which may be many gigabytes, are not downloaded.
func TestOnlyWhatIsReadIsFetched(t *testing.T) {
	index := map[string]string{
		"model.safetensors.index.json": `{"weight_map": {"a": "model-1-of-2.safetensors", "b": "model-2-of-2.safetensors",
			"c": "model-1-of-2.safetensors"}}`,
	}
	for _, c := range []struct {
		files map[string]string
		want  []string
	}{
		{
			with(index, "model-1-of-2.safetensors", "model-2-of-2.safetensors", "consolidated.safetensors", "original/params.json",
				"original/consolidated.00.pth", "m.Q4_0.gguf", "onnx/model.onnx", "pytorch_model.bin", "chat_template.jinja",
				"additional_chat_templates/tool_use.jinja"),
			[]string{
				"additional_chat_templates/tool_use.jinja", "chat_template.jinja", "config.json", "model-1-of-2.safetensors",
				"model-2-of-2.safetensors", "model.safetensors.index.json", "tokenizer.json",
			},
		},
		{with(nil, "model.safetensors", "model.fp32.safetensors"), []string{"config.json", "model.safetensors", "tokenizer.json"}},
	} {
		fetched := serveModel(t, c.files)
		_, err := ModelDir(t.Context(), "o/m")
		require.NoError(t, err)
		require.Equal(t, c.want, fetched())
	}
}

// A read-only cache, as on shared machines, is used if it has the whole model; else the model is downloaded to a temporary one, without
// the parts that the cache has.
func TestACacheThatCanOnlyBeRead(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root can write anywhere")
	}
	fetched := serveModel(t, with(map[string]string{
		"model.safetensors.index.json": `{"weight_map": {"a": "model-1-of-2.safetensors", "b": "model-2-of-2.safetensors"}}`,
	}, "model-1-of-2.safetensors", "model-2-of-2.safetensors"))
	cache := filepath.Join(t.TempDir(), "cache")
	t.Setenv("HF_HUB_CACHE", cache)
	t.Setenv("TMPDIR", t.TempDir())
	dir, err := ModelDir(t.Context(), "o/m")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(dir, cache), dir)
	require.Len(t, fetched(), 5)

	require.NoError(t, os.Chmod(cache, 0o555))
	defer os.Chmod(cache, 0o755)
	again, err := ModelDir(t.Context(), "o/m")
	require.NoError(t, err)
	require.Equal(t, dir, again)
	require.Len(t, fetched(), 5)

	require.NoError(t, os.Remove(filepath.Join(dir, "model-2-of-2.safetensors")))
	other, err := ModelDir(t.Context(), "o/m")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(other, os.TempDir()), other)
	for _, name := range []string{"config.json", "model.safetensors.index.json", "model-1-of-2.safetensors", "model-2-of-2.safetensors"} {
		require.FileExists(t, filepath.Join(other, name))
	}
}

func TestAModelInAnotherForm(t *testing.T) {
	fetched := serveModel(t, with(nil, "m.Q4_0.gguf", "original/consolidated.00.pth"))
	_, err := ModelDir(t.Context(), "o/m")
	require.True(t, badinput.Is(err), "%v", err)
	require.ErrorContains(t, err,
		"o/m holds neither model.safetensors nor model.safetensors.index.json, only .gguf, .pth; name a repository with")
	require.Empty(t, fetched())
}

// An adapter names its base by a name known to other machines, if there is one.
func TestWhatAnAdapterCallsItsBase(t *testing.T) {
	const commit = "/snapshots/0123456789abcdef0123456789abcdef01234567"
	for dir, want := range map[string]string{
		"/cache/hub/models--Qwen--Qwen3-0.6B" + commit + "/": "Qwen/Qwen3-0.6B",
		"models--a-b--c" + commit:                            "a-b/c",
		"models--a--b--c" + commit:                           "models--a--b--c" + commit,
		"/cache/hub/datasets--a--b" + commit:                 "/cache/hub/datasets--a--b" + commit,
		"/cache/hub/models--a--b/snapshots/main":             "/cache/hub/models--a--b/snapshots/main",
		"../models/mine":                                     "../models/mine",
	} {
		require.Equal(t, want, BaseName(dir))
	}
}

// A file of a model, or a GGUF, is not looked up on the Hub, whatever its name.
func TestAFileIsNoModel(t *testing.T) {
	fetched := serveModel(t, map[string]string{"config.json": "{}", "model.safetensors": "x"})
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("o", 0o755))
	require.NoError(t, os.WriteFile(filepath.Join("o", "m"), nil, 0o644))
	for _, find := range []func(context.Context, string) (string, error){ModelDir, LocalModelDir} {
		_, err := find(t.Context(), "o/m")
		require.EqualError(t, err, `model "o/m": found a file, expected a Hugging Face model directory`)
		require.True(t, badinput.Is(err))
	}
	require.Empty(t, fetched())
}

// A file of a run that is not a model is refused, with what it is and how to use it.
func TestWhatARunMadeIsNoModel(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a run")
	step := filepath.Join(dir, "checkpoints", "step_000002")
	adapter := filepath.Join(step, "adapter")
	require.NoError(t, os.MkdirAll(adapter, 0o755))
	for _, path := range []string{filepath.Join(dir, "manifest.json"), filepath.Join(dir, "config.json"), filepath.Join(step, "state.json"),
		filepath.Join(step, "optimizer.safetensors"), filepath.Join(adapter, "adapter_config.json")} {
		require.NoError(t, os.WriteFile(path, []byte("{}"), 0o600))
	}
	for path, says := range map[string]string{dir: "is a run, not a model; type --run '" + dir + "'",
		step: "type --run '" + step + "'", adapter: "is an adapter, not a model; "} {
		_, err := ModelDir(t.Context(), path)
		require.ErrorContains(t, err, says)
		require.True(t, badinput.Is(err))
	}
	require.NoError(t, os.WriteFile(filepath.Join(adapter, "config.json"), []byte("{}"), 0o600))
	_, err := ModelDir(t.Context(), adapter)
	require.NoError(t, err, "an adapter may be beside its model")

	t.Chdir(t.TempDir())
	t.Setenv("HOME", "/home/ada")
	asked := serveModel(t, nil)
	_, err = ModelDir(t.Context(), "~/Qwen3-0.6B")
	require.ErrorContains(t, err, "type /home/ada/Qwen3-0.6B")
	require.True(t, badinput.Is(err))
	require.Empty(t, asked())
}
