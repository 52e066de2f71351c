package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

const commit = "0123456789abcdef0123456789abcdef01234567"

// fakeHub behaves like the Hub: small files are served directly under git's blob name, large ones
// through a redirect to a second host, under their SHA-256. trouble, where set, sees each request
// first and says whether it has answered it.
type fakeHub struct {
	hub, storage *httptest.Server
	small, large map[string][]byte
	token        string

	mu      sync.Mutex
	log     []string // "GET /path bytes=5-"
	trouble func(w http.ResponseWriter, r *http.Request) bool
}

func newFakeHub(t *testing.T) *fakeHub {
	h := &fakeHub{
		small: map[string][]byte{"README.md": []byte("hello\n")},
		large: map[string][]byte{"taco/train-00000-of-00001.parquet": bytesOf(300_000)},
	}
	h.hub = httptest.NewServer(h.logged(h.serveHub))
	h.storage = httptest.NewServer(h.logged(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			http.Error(w, "the token left the Hub", http.StatusTeapot)
			return
		}
		name := strings.TrimPrefix(r.URL.Path, "/storage/")
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(h.large[name])))
	}))
	t.Cleanup(h.hub.Close)
	t.Cleanup(h.storage.Close)
	return h
}

func bytesOf(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(i*i>>3 + i)
	}
	return out
}

func (h *fakeHub) logged(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.log = append(h.log, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+r.Header.Get("Range")))
		trouble := h.trouble
		h.mu.Unlock()
		if trouble == nil || !trouble(w, r) {
			next(w, r)
		}
	})
}

func (h *fakeHub) serveHub(w http.ResponseWriter, r *http.Request) {
	if h.token != "" && r.Header.Get("Authorization") != "Bearer "+h.token {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if r.URL.Path == "/api/datasets/o/old/revision/main" { // a renamed repository
		http.Redirect(w, r, "/api/datasets/o/d/revision/main", http.StatusTemporaryRedirect)
		return
	}
	if r.URL.Path == "/api/datasets/o/d/revision/main" {
		type sibling struct {
			Name string `json:"rfilename"`
		}
		siblings := []sibling{{"README.md"}}
		for name := range h.large {
			siblings = append(siblings, sibling{name})
		}
		json.NewEncoder(w).Encode(map[string]any{"sha": commit, "siblings": siblings})
		return
	}
	name := strings.TrimPrefix(r.URL.Path, "/datasets/o/d/resolve/"+commit+"/")
	if content, ok := h.large[name]; ok {
		sum := sha256.Sum256(content)
		w.Header().Set("X-Linked-Etag", `"`+hex.EncodeToString(sum[:])+`"`)
		w.Header().Set("X-Linked-Size", strconv.Itoa(len(content)))
		w.Header().Set("X-Repo-Commit", commit)
		http.Redirect(w, r, h.storage.URL+"/storage/"+name, http.StatusFound)
		return
	}
	if content, ok := h.small[name]; ok {
		sum := sha1.Sum([]byte(fmt.Sprintf("blob %d\x00%s", len(content), content)))
		w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:])+`"`)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(content)))
		return
	}
	w.Header().Set("X-Error-Code", map[bool]string{true: "EntryNotFound", false: "RepoNotFound"}[strings.Contains(r.URL.Path, "/resolve/")])
	w.WriteHeader(http.StatusNotFound)
}

// client is a client of h with an empty cache that does not wait between attempts; waits receives
// how long it would have.
func (h *fakeHub) client(t *testing.T) (c *Client, waits *[]time.Duration) {
	c = New(h.hub.URL+"/", "", t.TempDir())
	waits = new([]time.Duration)
	c.sleep = func(_ context.Context, d time.Duration) error {
		*waits = append(*waits, d)
		return nil
	}
	return c, waits
}

func (h *fakeHub) setTrouble(f func(w http.ResponseWriter, r *http.Request) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trouble = f
}

func (h *fakeHub) count(prefix string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, line := range h.log {
		if strings.HasPrefix(line, prefix) {
			n++
		}
	}
	return n
}

const large = "taco/train-00000-of-00001.parquet"

var repo = Repo{Type: Dataset, ID: "o/d"}

func fetch(c *Client, name string) ([]byte, error) {
	s, err := c.Snapshot(context.Background(), repo)
	if err != nil {
		return nil, err
	}
	path, err := s.Download(context.Background(), name)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

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

// cut answers a transfer with its first n bytes and breaks the connection.
func cut(h *fakeHub, n int) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/storage/") {
			return false
		}
		content, offset := h.large[large], 0
		if rng := r.Header.Get("Range"); rng != "" {
			fmt.Sscanf(rng, "bytes=%d-", &offset)
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", offset, len(content)-1, len(content)))
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(content)-offset))
		if offset > 0 {
			w.WriteHeader(http.StatusPartialContent)
		}
		w.Write(content[offset:min(offset+n, len(content))])
		if offset+n < len(content) {
			panic(http.ErrAbortHandler)
		}
		return true
	}
}

// A line that breaks every 40,000 bytes needs eight attempts, more than are allowed without progress.
func TestResumeAfterBrokenTransfers(t *testing.T) {
	h := newFakeHub(t)
	c, _ := h.client(t)
	h.setTrouble(cut(h, 40_000))
	got, err := fetch(c, large)
	require.NoError(t, err)
	require.Equal(t, h.large[large], got)
	require.Equal(t, 8, h.count("GET /storage/"))
	require.Equal(t, 1, h.count("GET /storage/"+large+" bytes=280000-"))
}

// A later process goes on where an earlier one was stopped.
func TestResumeInAnotherProcess(t *testing.T) {
	h := newFakeHub(t)
	c, _ := h.client(t)
	ctx, cancel := context.WithCancel(context.Background())
	h.setTrouble(cut(h, 100_000))
	c.Progress = func(_ string, done, _ int64) {
		if done == 100_000 {
			cancel()
		}
	}
	s, err := c.Snapshot(ctx, repo)
	require.NoError(t, err)
	_, err = s.Download(ctx, large)
	require.ErrorIs(t, err, context.Canceled)

	h.setTrouble(nil)
	second := New(h.hub.URL, "", c.Cache)
	got, err := fetch(second, large)
	require.NoError(t, err)
	require.Equal(t, h.large[large], got)
	require.Equal(t, 1, h.count("GET /storage/"+large+" bytes=100000-"))
}

func TestServerThatCannotResume(t *testing.T) {
	h := newFakeHub(t)
	c, _ := h.client(t)
	first := true
	h.setTrouble(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/storage/") {
			return false
		}
		if first {
			first = false
			return cut(h, 1000)(w, r)
		}
		w.Write(h.large[large]) // 200, whatever the Range
		return true
	})
	got, err := fetch(c, large)
	require.NoError(t, err)
	require.Equal(t, h.large[large], got)
}

// A silent connection is broken off and resumed.
func TestStalledTransfer(t *testing.T) {
	h := newFakeHub(t)
	c, _ := h.client(t)
	c.stall = 50 * time.Millisecond
	first := true
	h.setTrouble(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/storage/") || !first {
			return false
		}
		first = false
		w.Header().Set("Content-Length", "300000")
		w.Write(h.large[large][:500])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return true
	})
	got, err := fetch(c, large)
	require.NoError(t, err)
	require.Equal(t, h.large[large], got)
	require.Equal(t, 1, h.count("GET /storage/"+large+" bytes=500-"))
}

// A file that always ends too early, and one that arrives changed, are errors, never a result.
func TestTruncatedAndDamagedFiles(t *testing.T) {
	for name, content := range map[string][]byte{"truncated": bytesOf(250_000), "damaged": append([]byte{1}, bytesOf(300_000)[1:]...)} {
		t.Run(name, func(t *testing.T) {
			h := newFakeHub(t)
			c, waits := h.client(t)
			h.setTrouble(func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasPrefix(r.URL.Path, "/storage/") {
					return false
				}
				http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(content)))
				return true
			})
			_, err := fetch(c, large)
			require.ErrorContains(t, err, name)
			require.ErrorContains(t, err, "after 6 attempts")
			require.False(t, badinput.Is(err))
			require.Len(t, *waits, attempts-1)
			require.Less(t, (*waits)[0], (*waits)[4])

			h.setTrouble(nil)
			got, err := fetch(c, large)
			require.NoError(t, err, "the next run mends it")
			require.Equal(t, h.large[large], got)
		})
	}
}

func TestRefusals(t *testing.T) {
	answer := func(code int, header ...string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
			return true
		}
	}
	for _, c := range []struct {
		trouble func(http.ResponseWriter, *http.Request) bool
		token   string
		says    []string
	}{
		{answer(401), "", []string{"401", "set HF_TOKEN", "/settings/tokens", "/datasets/o/d"}},
		{answer(401), "wrong", []string{"401", "refuses this HF_TOKEN"}},
		{answer(403), "", []string{"403", "accept the terms"}},
		{answer(404, "X-Error-Code", "RepoNotFound"), "", []string{"404", "check the name"}},
		{answer(404, "X-Error-Code", "RevisionNotFound"), "", []string{`no revision "main"`}},
	} {
		h := newFakeHub(t)
		client, waits := h.client(t)
		client.Token = c.token
		h.setTrouble(c.trouble)
		_, err := fetch(client, large)
		require.True(t, badinput.Is(err), "%v", err)
		for _, s := range c.says {
			require.ErrorContains(t, err, s)
		}
		require.Empty(t, *waits, "a refusal is not retried")
	}

	h := newFakeHub(t)
	client, _ := h.client(t)
	_, err := fetch(client, "no/such.file")
	require.True(t, badinput.Is(err))
	require.ErrorContains(t, err, `no file "no/such.file"`)
	_, err = client.Snapshot(context.Background(), Repo{Type: Dataset, ID: "../etc"})
	require.True(t, badinput.Is(err))
}

func TestTooManyRequests(t *testing.T) {
	h := newFakeHub(t)
	c, waits := h.client(t)
	left := 2
	h.setTrouble(func(w http.ResponseWriter, r *http.Request) bool {
		if left == 0 {
			return false
		}
		left--
		w.Header().Set("Retry-After", []string{time.Now().Add(90 * time.Second).UTC().Format(http.TimeFormat), "7"}[left])
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	_, err := fetch(c, large)
	require.NoError(t, err)
	require.Len(t, *waits, 2)
	require.Equal(t, 7*time.Second, (*waits)[0])
	require.InDelta(t, 90, (*waits)[1].Seconds(), 3)

	h.setTrouble(func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Retry-After", "86400")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	_, err = fetch(c, large)
	require.ErrorContains(t, err, "24h")
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
