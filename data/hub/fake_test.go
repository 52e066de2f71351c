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
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const commit = "0123456789abcdef0123456789abcdef01234567"

// fakeHub behaves like the Hub: small files are served directly under git's blob name, large ones through a redirect to a second host,
// under their SHA-256. trouble, if set, sees each request first and reports whether it has answered it.
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

// client is a client of h with an empty cache that does not wait between attempts; waits records how long it would have.
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
