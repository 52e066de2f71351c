package hub

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// cutTransfer answers a transfer with its first n bytes and closes the connection.
func cutTransfer(h *fakeHub, n int) func(http.ResponseWriter, *http.Request) bool {
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

// A connection that breaks every 40,000 bytes needs eight attempts, more than are allowed without progress.
func TestResumeAfterBrokenTransfers(t *testing.T) {
	h := newFakeHub(t)
	c, _ := h.client(t)
	h.setTrouble(cutTransfer(h, 40_000))
	got, err := fetch(c, large)
	require.NoError(t, err)
	require.Equal(t, h.large[large], got)
	require.Equal(t, 8, h.count("GET /storage/"))
	require.Equal(t, 1, h.count("GET /storage/"+large+" bytes=280000-"))
}

// A later process resumes the download of an earlier one.
func TestResumeInAnotherProcess(t *testing.T) {
	h := newFakeHub(t)
	c, _ := h.client(t)
	ctx, cancel := context.WithCancel(context.Background())
	h.setTrouble(cutTransfer(h, 100_000))
	ctx = WithProgress(ctx, func(p Progress) {
		if p.Done == 100_000 {
			cancel()
		}
	})
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
	var asked atomic.Int32 // on several connections
	h.setTrouble(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/storage/") {
			return false
		}
		if asked.Add(1) == 1 {
			return cutTransfer(h, 1000)(w, r)
		}
		w.Write(h.large[large]) // 200, whatever Range says
		return true
	})
	got, err := fetch(c, large)
	require.NoError(t, err)
	require.Equal(t, h.large[large], got)
}

// A stalled connection is closed and resumed. Only that one has a short time-out: others may be slow on a busy machine.
func TestStalledTransfer(t *testing.T) {
	h := newFakeHub(t)
	c, _ := h.client(t)
	sleep := c.sleep
	c.sleep = func(ctx context.Context, d time.Duration) error {
		c.stall = time.Minute
		return sleep(ctx, d)
	}
	arrived := make(chan bool)
	var asked atomic.Int32 // on several connections
	h.setTrouble(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/storage/") || asked.Add(1) > 1 {
			return false
		}
		w.Header().Set("Content-Length", "300000")
		w.Write(h.large[large][:300])
		w.(http.Flusher).Flush()
		<-arrived
		w.Write(h.large[large][300:500])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return true
	})
	ctx := WithProgress(t.Context(), func(p Progress) {
		if p.Done == 300 {
			c.stall = 50 * time.Millisecond // after the next piece
			close(arrived)
		}
	})
	s, err := c.Snapshot(ctx, repo)
	require.NoError(t, err)
	path, err := s.Download(ctx, large)
	require.NoError(t, err)
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, h.large[large], got)
	require.Equal(t, 1, h.count("GET /storage/"+large+" bytes=500-"))
}

// A file that is always truncated, and one that arrives with other content, are errors, and never a result.
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
			require.NoError(t, err, "the next run downloads it")
			require.Equal(t, h.large[large], got)
		})
	}
}

// A disk without enough room is noticed before anything is transferred; existing files count.
func TestADiskThatIsTooSmall(t *testing.T) {
	h := newFakeHub(t)
	c, _ := h.client(t)
	c.free = func(string) (int64, bool) { return 250_000, true }
	_, err := fetch(c, large)
	require.True(t, badinput.Is(err), "%v", err)
	require.ErrorContains(t, err, "o/d: the download needs 0.3 MB, but "+c.Cache+" has only 0.2 MB free; make room there, or set HF_HUB_CACHE")
	require.Zero(t, h.count("GET /storage/"))

	ctx, cancel := context.WithCancel(context.Background())
	h.setTrouble(cutTransfer(h, 60_000))
	c.free = func(string) (int64, bool) { return 300_000, true }
	ctx = WithProgress(ctx, func(p Progress) {
		if p.Done == 60_000 {
			cancel()
		}
	})
	s, err := c.Snapshot(ctx, repo)
	require.NoError(t, err)
	_, err = s.Download(ctx, large)
	require.ErrorIs(t, err, context.Canceled)

	h.setTrouble(nil)
	c.free = func(string) (int64, bool) { return 250_000, true }
	_, err = fetch(c, large)
	require.NoError(t, err, "60,000 bytes were there")
}

func TestFreeOfAFolderThatIsNotThere(t *testing.T) {
	dir := t.TempDir()
	there, known := free(dir)
	require.True(t, known)
	require.Positive(t, there)
	above, known := free(filepath.Join(dir, "not", "yet"))
	require.True(t, known)
	require.InDelta(t, there, above, 1<<30)
	if runtime.GOOS == "linux" { // where a sparse file takes no room
		_, known = free("/proc")
		require.False(t, known)
	}
}
