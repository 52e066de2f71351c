package suite

import (
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakeHub is a Hub with one data set.
func fakeHub(t *testing.T, id string, files map[string]string) {
	t.Helper()
	const commit = "0123456789abcdef0123456789abcdef01234567"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/datasets/"+id+"/revision/main" {
			var siblings []map[string]string
			for name := range files {
				siblings = append(siblings, map[string]string{"rfilename": name})
			}
			json.NewEncoder(w).Encode(map[string]any{"sha": commit, "siblings": siblings})
			return
		}
		text, ok := files[strings.TrimPrefix(r.URL.Path, "/datasets/"+id+"/resolve/"+commit+"/")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		sum := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(text), text))
		w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:])+`"`)
		w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		if r.Method == http.MethodGet {
			w.Write([]byte(text))
		}
	}))
	t.Cleanup(server.Close)
	for _, name := range []string{"HF_TOKEN", "HF_TOKEN_PATH", "HF_HUB_CACHE", "HF_HUB_OFFLINE"} {
		t.Setenv(name, "")
	}
	t.Setenv("HF_HOME", t.TempDir())
	t.Setenv("HF_ENDPOINT", server.URL)
}

// Without --data a set is downloaded from the Hub: of one with several configurations, the right one.
func TestSetsOfTheHub(t *testing.T) {
	text := func(name string) string {
		all, err := os.ReadFile(filepath.Join("testdata", name+".jsonl"))
		require.NoError(t, err)
		return string(all)
	}
	lines := strings.SplitAfter(text("mbpp"), "\n")
	lcb := strings.SplitAfter(text("livecodebench"), "\n")
	for _, c := range []struct {
		suite string
		files map[string]string
		o     Options
		want  int
	}{
		{"mbpp", map[string]string{"full/prompt-00000-of-00001.jsonl": strings.Join(lines[:3], ""), "README.md": "x",
			"full/test-00000-of-00001.jsonl": strings.Join(lines[3:7], ""), "full/train-00000-of-00001.jsonl": lines[7],
			"sanitized/test-00000-of-00001.jsonl": "not JSON"}, Options{Style: Completion, Shots: 3}, 4},
		{"gsm8k", map[string]string{"main/test-00000-of-00001.jsonl": text("gsm8k"), "main/train-00000-of-00001.jsonl": text("gsm8k"),
			"socratic/test-00000-of-00001.jsonl": "not JSON"}, Options{Style: Completion, Shots: 2}, 2},
		{"livecodebench", map[string]string{"test.jsonl": lcb[0], "test2.jsonl": strings.Join(lcb[1:], ""), "script.py": "x"},
			Options{Style: Chat}, 4},
		{"humaneval", map[string]string{"openai_humaneval/test-00000-of-00001.jsonl": text("humaneval")}, Options{Style: Chat}, 3},
	} {
		s, err := Find(c.suite)
		require.NoError(t, err)
		fakeHub(t, s.Source, c.files)
		c.o.CacheDir = t.TempDir()
		b, err := s.Build(t.Context(), c.o)
		require.NoError(t, err, c.suite)
		require.Equal(t, s.Source, b.Source)
		require.Equal(t, "0123456789abcdef0123456789abcdef01234567", b.Origin.Commit)
		problems, err := os.ReadFile(b.Tasks)
		require.NoError(t, err)
		require.Equal(t, c.want, strings.Count(string(problems), "\n"), c.suite)
	}
}
