package hub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/notice"
)

// Both ways of serving fill the cache in the layout of other tools, and the token is not sent to the storage.
func TestDownloadFillsTheStandardCache(t *testing.T) {
	h := newFakeHub(t)
	h.token = "secret"
	c, _ := h.client(t)
	c.Token = "secret"
	for _, name := range []string{"README.md", large} {
		got, err := fetch(c, name)
		require.NoError(t, err)
		require.Equal(t, append(h.small[name], h.large[name]...), got)
	}
	folder := filepath.Join(c.Cache, "datasets--o--d")
	ref, err := os.ReadFile(filepath.Join(folder, "refs", "main"))
	require.NoError(t, err)
	require.Equal(t, commit, string(ref))
	target, err := os.Readlink(filepath.Join(folder, "snapshots", commit, large))
	require.NoError(t, err)
	sum := sha256.Sum256(h.large[large])
	require.Equal(t, "../../../blobs/"+hex.EncodeToString(sum[:]), target)

	before := h.count("HEAD") + h.count("GET /datasets")
	_, err = fetch(c, large)
	require.NoError(t, err)
	require.Equal(t, before, h.count("HEAD")+h.count("GET /datasets"), "a cached file is not asked for again")
}

func TestRenamedRepository(t *testing.T) {
	h := newFakeHub(t)
	c, _ := h.client(t)
	s, err := c.Snapshot(context.Background(), Repo{Type: Dataset, ID: "o/old"})
	require.NoError(t, err)
	require.Equal(t, []string{"README.md", large}, s.Files)
}

func TestOffline(t *testing.T) {
	h := newFakeHub(t)
	c, _ := h.client(t)
	c.Offline = true
	_, err := fetch(c, large)
	require.True(t, badinput.Is(err))
	require.ErrorContains(t, err, "HF_HUB_OFFLINE")

	c.Offline = false
	_, err = fetch(c, large)
	require.NoError(t, err)
	requests := h.count("")

	c.Offline = true
	got, err := fetch(c, large)
	require.NoError(t, err)
	require.Equal(t, h.large[large], got)
	_, err = fetch(c, "README.md")
	require.True(t, badinput.Is(err), "listed, but never downloaded")
	require.ErrorContains(t, err, "README.md of o/d is not in the cache")
	require.Equal(t, requests, h.count(""), "offline asks nobody")

	// A cache filled by another tool has no listing.
	require.NoError(t, os.RemoveAll(filepath.Join(c.Cache, "datasets--o--d", "listings")))
	s, err := c.Snapshot(context.Background(), repo)
	require.NoError(t, err)
	require.Equal(t, []string{large}, s.Files)
}

func TestNobodyThere(t *testing.T) {
	h := newFakeHub(t)
	c, waits := h.client(t)
	h.hub.Close()
	_, err := fetch(c, large)
	require.ErrorContains(t, err, "HF_HUB_OFFLINE=1")
	require.Len(t, *waits, dialAttempts-1)
}

func TestFromEnv(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"HF_TOKEN", "HF_TOKEN_PATH", "HF_HUB_CACHE", "HF_ENDPOINT", "HF_HUB_OFFLINE"} {
		t.Setenv(name, "")
	}
	t.Setenv("HF_HOME", home)
	require.NoError(t, os.WriteFile(filepath.Join(home, "token"), []byte("from-file\n"), 0o600))
	c, err := FromEnv()
	require.NoError(t, err)
	require.Equal(t, []any{"https://huggingface.co", "from-file", filepath.Join(home, "hub"), false}, []any{c.Endpoint, c.Token, c.Cache,
		c.Offline})

	t.Setenv("HF_TOKEN", "from-env")
	t.Setenv("HF_ENDPOINT", "http://mirror/")
	t.Setenv("HF_HUB_OFFLINE", "true")
	t.Setenv("HF_HUB_CACHE", "/elsewhere")
	c, err = FromEnv()
	require.NoError(t, err)
	require.Equal(t, []any{"http://mirror", "from-env", "/elsewhere", true}, []any{c.Endpoint, c.Token, c.Cache, c.Offline})
}

// An invalid endpoint is reported at once, without further attempts.
func TestAnEndpointThatIsNoAddress(t *testing.T) {
	for _, endpoint := range []string{"huggingface.co", "ftp://huggingface.co", "https://", "http://a b"} {
		c := New(endpoint, "secret", t.TempDir())
		c.sleep = func(context.Context, time.Duration) error { return errors.New("it waits") }
		_, err := c.Snapshot(t.Context(), repo)
		require.True(t, badinput.Is(err), "%v", err)
		require.ErrorContains(t, err, "expected an address such as https://huggingface.co")
		_, err = c.Publish(t.Context(), repo, true, "a message", nil, nil)
		require.ErrorContains(t, err, "expected an address such as https://huggingface.co")
	}
}

// If something else than a Hub answers, such as a captive portal, the error says so.
func TestSomethingElseThanAHub(t *testing.T) {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "<html>log in</html>")
	}))
	defer page.Close()
	_, err := New(page.URL, "", t.TempDir()).Snapshot(t.Context(), repo)
	require.ErrorContains(t, err, "the Hub at "+page.URL+" did not answer with JSON")
}

// Files downloaded together are counted, and reported as they arrive; an existing one is not reported.
func TestProgressCountsTheFiles(t *testing.T) {
	h := newFakeHub(t)
	c, _ := h.client(t)
	var told []Progress
	ctx := WithProgress(t.Context(), func(p Progress) { told = append(told, p) })
	s, err := c.Snapshot(ctx, repo)
	require.NoError(t, err)
	paths, err := s.DownloadAll(ctx, []string{"README.md", large})
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(s.Dir(), "README.md"), filepath.Join(s.Dir(), large)}, paths)
	require.Equal(t, Progress{File: "o/d/README.md", Number: 1, Files: 2, Done: 6, Total: 6}, told[0])
	size := int64(len(h.large[large]))
	require.Equal(t, Progress{File: "o/d/" + large, Number: 2, Files: 2, Done: size, Total: size}, told[len(told)-1])
	n := len(told)
	_, err = s.DownloadAll(WithProgress(ctx, nil), []string{"README.md", large})
	require.NoError(t, err)
	require.Len(t, told, n)
}

// If the cache is not writable, a temporary one is used, and the read-only one is still read.
func TestACacheThatCannotBeWritten(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("HF_HUB_CACHE", "")
	h := newFakeHub(t)
	c, _ := h.client(t)
	full := c.Cache
	_, err := fetch(c, large)
	require.NoError(t, err)

	c, _ = h.client(t)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	c.Cache = filepath.Join(file, "hub")
	var said []string
	ctx := notice.WithHandler(t.Context(), func(text string) { said = append(said, text) })
	for range 2 {
		s, err := c.Snapshot(ctx, repo)
		require.NoError(t, err)
		path, err := s.Download(ctx, large)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(path, os.TempDir()), path)
	}
	require.Len(t, said, 1)
	require.Contains(t, said[0], file)
	require.Contains(t, said[0], "HF_HOME")
	require.Equal(t, 2, h.count("GET /storage/"))

	c.Cache, c.held = t.TempDir(), full // like a read-only file system
	got, err := fetch(c, large)
	require.NoError(t, err)
	require.Equal(t, h.large[large], got)
	require.Equal(t, 2, h.count("GET /storage/"), "nothing is fetched again")
}

func TestWithoutAHome(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, name := range []string{"HOME", "XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE", "HF_TOKEN", "HF_TOKEN_PATH", "HF_HUB_OFFLINE"} {
		t.Setenv(name, "")
	}
	h := newFakeHub(t)
	t.Setenv("HF_ENDPOINT", h.hub.URL)
	c, err := FromEnv()
	require.NoError(t, err)
	var said []string
	s, err := c.Snapshot(notice.WithHandler(t.Context(), func(text string) { said = append(said, text) }), repo)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(s.Dir(), os.TempDir()), s.Dir())
	require.Len(t, said, 1)
	require.Contains(t, said[0], "no folder for a cache")
}
