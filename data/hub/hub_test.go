package hub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Both ways of serving land in the cache layout that other tools expect, and the token stays home.
func TestDownloadFillsTheStandardCache(t *testing.T) {
	h := newFakeHub(t)
	h.token = "secret"
	c, _ := h.client(t)
	c.Token = "secret"
	var last, total int64
	c.Progress = func(_ string, done, of int64) { last, total = done, of }

	for _, name := range []string{"README.md", large} {
		got, err := fetch(c, name)
		require.NoError(t, err)
		require.Equal(t, append(h.small[name], h.large[name]...), got)
	}
	require.EqualValues(t, len(h.large[large]), last)
	require.Equal(t, last, total)

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

	// A cache that another tool filled has no listing.
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
