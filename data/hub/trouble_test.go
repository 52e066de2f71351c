package hub

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// A dangling link, as after the cache was moved with absolute links, is replaced.
func TestALinkThatLeadsNowhere(t *testing.T) {
	h := newFakeHub(t)
	c, _ := h.client(t)
	s, err := c.Snapshot(t.Context(), repo)
	require.NoError(t, err)
	link := filepath.Join(s.Dir(), "README.md")
	require.NoError(t, os.MkdirAll(s.Dir(), 0o755))
	require.NoError(t, os.Symlink("/nowhere/blobs/abc", link))
	got, err := fetch(c, "README.md")
	require.NoError(t, err)
	require.Equal(t, h.small["README.md"], got)
}

// On a file system without links, files are stored where the links would be, and are not downloaded again.
func TestACacheWithoutLinks(t *testing.T) {
	t.Cleanup(func() { makeLink = os.Symlink })
	why := syscall.ENOSPC
	makeLink = func(_, link string) error { return &os.LinkError{Op: "symlink", New: link, Err: why} }
	h := newFakeHub(t)
	c, _ := h.client(t)
	_, err := fetch(c, large)
	require.ErrorIs(t, err, syscall.ENOSPC)
	blobs, err := filepath.Glob(filepath.Join(c.Cache, "datasets--o--d", "blobs", "*"))
	require.NoError(t, err)
	require.Len(t, blobs, 1, "another link may lead to it")
	h, why = newFakeHub(t), syscall.EPERM
	c, _ = h.client(t)
	for range 2 {
		got, err := fetch(c, large)
		require.NoError(t, err)
		require.Equal(t, h.large[large], got)
	}
	require.Equal(t, 1, h.count("HEAD"))
	got, err := os.ReadFile(filepath.Join(c.Cache, "datasets--o--d", "snapshots", commit, large))
	require.NoError(t, err)
	require.Equal(t, h.large[large], got)
}

// A file that always arrives changed over a breaking connection, and one whose server always restarts from the beginning, are errors,
// too: attempts count as progress only by new bytes.
func TestADownloadThatGetsNowhere(t *testing.T) {
	for says, answer := range map[string]func(h *fakeHub, n int32) func(http.ResponseWriter, *http.Request) bool{
		"damaged": func(h *fakeHub, n int32) func(http.ResponseWriter, *http.Request) bool {
			return cutTransfer(&fakeHub{large: map[string][]byte{large: append([]byte{1}, h.large[large][1:]...)}}, 200_000)
		},
		"unexpected EOF": func(h *fakeHub, n int32) func(http.ResponseWriter, *http.Request) bool {
			return func(w http.ResponseWriter, r *http.Request) bool {
				r.Header.Del("Range")
				return cutTransfer(h, []int{100_000, 200_000}[n%2])(w, r)
			}
		},
	} {
		t.Run(says, func(t *testing.T) {
			h := newFakeHub(t)
			c, waits := h.client(t)
			ctx, cancel := context.WithCancel(t.Context())
			sleep := c.sleep
			c.sleep = func(ctx context.Context, d time.Duration) error {
				if len(*waits) > 50 {
					cancel()
				}
				return sleep(ctx, d)
			}
			var asked atomic.Int32 // on several connections
			h.setTrouble(func(w http.ResponseWriter, r *http.Request) bool {
				return strings.HasPrefix(r.URL.Path, "/storage/") && answer(h, asked.Add(1))(w, r)
			})
			s, err := c.Snapshot(ctx, repo)
			require.NoError(t, err)
			_, err = s.Download(ctx, large)
			require.ErrorContains(t, err, says)
			require.ErrorContains(t, err, "after 6 attempts")
		})
	}
}

// If the Hub stalls in the middle of an answer, it is asked again.
func TestAnswersThatStall(t *testing.T) {
	var asked atomic.Int32
	silent := func(w http.ResponseWriter, r *http.Request) bool {
		if asked.Add(1) > 1 {
			return false
		}
		w.Write([]byte(`{"sha":`))
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
		case <-time.After(10 * time.Second):
			t.Error("the client did not give up within 10 seconds")
		}
		return true
	}
	h, up := newFakeHub(t), newWritableHub(t)
	h.setTrouble(silent)
	c, _ := h.client(t)
	c.stall = 100 * time.Millisecond
	_, err := c.Snapshot(t.Context(), repo)
	require.NoError(t, err)

	up.trouble = func(w http.ResponseWriter, r *http.Request) bool {
		return strings.Contains(r.URL.Path, "/preupload/") && silent(w, r)
	}
	asked.Store(0)
	c.Endpoint, c.Token = up.hub.URL, "secret"
	_, err = c.Publish(t.Context(), Repo{Type: Model, ID: "me/coder"}, false, "x", []Upload{upload("README.md", []byte("hi"))}, nil)
	require.NoError(t, err)
}

// A token with a line end is refused at once.
func TestATokenOfTwoLines(t *testing.T) {
	h := newFakeHub(t)
	c, waits := h.client(t)
	c.Token = "hf_a\nhf_b"
	_, err := c.Snapshot(t.Context(), repo)
	require.ErrorContains(t, err, "HF_TOKEN, or the file that has the token: found more than one line")
	require.Empty(t, *waits, "there must be no other attempt")
}

// A password in the endpoint is sent to the Hub, and not shown in any message.
func TestAPasswordInTheEndpoint(t *testing.T) {
	h := newFakeHub(t)
	at := strings.TrimPrefix(h.hub.URL, "http://")
	c := New("http://me:secret@"+at+"/", "", t.TempDir())
	var asked atomic.Int32
	h.setTrouble(func(w http.ResponseWriter, r *http.Request) bool {
		if user, password, _ := r.BasicAuth(); r.Host == at && (user != "me" || password != "secret") {
			asked.Add(1)
		}
		return false
	})
	_, err := fetch(c, large) // the storage refuses requests that have it
	require.NoError(t, err)
	require.Zero(t, asked.Load(), "requests to the Hub without the token")
	_, err = c.Snapshot(t.Context(), Repo{Type: Dataset, ID: "o/none"})
	require.ErrorContains(t, err, "there is no "+h.hub.URL+"/datasets/o/none (404)")
}

// A redirect loop is reported without further attempts.
func TestRedirectsInACircle(t *testing.T) {
	h := newFakeHub(t)
	h.setTrouble(func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
		return true
	})
	c, waits := h.client(t)
	_, err := c.Snapshot(t.Context(), repo)
	require.ErrorContains(t, err, "more than 10 redirects; check HF_ENDPOINT, or set HF_HUB_OFFLINE=1 to use the cache")
	require.True(t, badinput.Is(err))
	require.Empty(t, *waits)
}
