package hub

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// roundTripFunc is a Hub made of a function, without a network.
type roundTripFunc func(r *http.Request) *http.Response

func (a roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return a(r), nil }

func respond(r *http.Request, status int, header http.Header, body []byte) *http.Response {
	if header == nil {
		header = http.Header{}
	}
	return &http.Response{StatusCode: status, Status: strconv.Itoa(status), Header: header, Request: r,
		ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body))}
}

func fuzzClient(t *testing.T, hub roundTripFunc) *Client {
	c := New("https://hub.example", "", filepath.Join(t.TempDir(), "cache"))
	c.http.Transport = hub
	c.sleep = func(context.Context, time.Duration) error { return nil }
	return c
}

// requireOnlyCache requires that only the cache is in its parent folder, which belongs to the test.
func requireOnlyCache(t *testing.T, c *Client) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(c.Cache))
	if err != nil || len(entries) > 1 || len(entries) == 1 && entries[0].Name() != filepath.Base(c.Cache) {
		t.Fatalf("outside of the cache are %v, %v", entries, err)
	}
}

// The Hub's description of a repository is refused, or gives a commit whose files are in the cache, and which is then known without the
// Hub.
func FuzzListing(f *testing.F) {
	f.Add(200, []byte(`{"_id":"66","id":"o/d","sha":"`+commit+`","private":false,"siblings":[`+
		`{"rfilename":".gitattributes"},{"rfilename":"README.md"},{"rfilename":"data/train-00000-of-00001.parquet"}],"downloads":7}`))
	f.Add(200, []byte(`{"sha":"`+commit+`","siblings":[{"rfilename":"a//b/../c"},{"rfilename":"./a"},{"rfilename":"a"}]}`))
	f.Add(200, []byte(`{"sha":"`+commit+`","siblings":[{"rfilename":"../../outside"}]}`))
	f.Add(200, []byte(`{"sha":"`+commit+`","siblings":null}`))
	f.Add(200, []byte(`{"sha":"main","siblings":[]}`))
	f.Add(404, []byte(`{"error":"Repository not found"}`))
	f.Add(503, []byte(`<html>busy</html>`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		if status < 200 || status > 599 {
			return
		}
		c := fuzzClient(t, func(r *http.Request) *http.Response { return respond(r, status, nil, body) })
		s, err := c.Snapshot(t.Context(), repo)
		requireOnlyCache(t, c)
		if err != nil {
			if !strings.Contains(err.Error(), "o/d") || strings.Contains(err.Error(), "\n") {
				t.Fatalf("not a line that names the repository: %q", err)
			}
			return
		}
		for i, name := range s.Files {
			if name == "." || !fs.ValidPath(name) || strings.ContainsRune(name, 0) {
				t.Fatalf("the repository has a file named %q", name)
			}
			if i > 0 && s.Files[i-1] >= name {
				t.Fatalf("the files are not in order, or one is there twice: %q", s.Files)
			}
		}
		c.Offline = true
		again, err := c.Snapshot(t.Context(), repo)
		if err != nil || again.Commit != s.Commit || !slices.Equal(again.Files, s.Files) {
			t.Fatalf("offline the repository is %v, %v; it was %v", again, err, s)
		}
	})
}

// A file has the content of the answers, with their size and hash, or does not exist.
func FuzzFile(f *testing.F) {
	const hello = "hello\n"
	blob, sum := `"ce013625030ba8dba906f756967f9e9ca394464a"`, `"5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"`
	f.Add(200, blob, "", 200, "", []byte(hello), []byte(hello))
	f.Add(302, sum, "6", 200, "", []byte(hello), []byte(hello))
	f.Add(302, sum, "6", 206, "bytes 3-5/6", []byte("lo\n"), []byte("hel"))
	f.Add(302, sum, "60", 200, "", []byte(hello), []byte(nil))
	f.Add(302, sum, "-1", 416, "bytes */6", []byte(nil), []byte("hello there"))
	f.Add(302, `W/"abc"`, "", 200, "", []byte(hello), []byte(nil))
	f.Add(200, `"../../../outside"`, "6", 200, "", []byte(hello), []byte(nil))
	f.Fuzz(func(t *testing.T, head int, etag, size string, status int, span string, body, had []byte) {
		if head < 200 || head > 599 || status < 200 || status > 599 {
			return
		}
		c := fuzzClient(t, func(r *http.Request) *http.Response {
			if r.Method == http.MethodHead {
				h := http.Header{"X-Linked-Etag": {etag}, "Location": {"https://storage.example/file"}}
				if size != "" {
					h.Set("X-Linked-Size", size)
				}
				return respond(r, head, h, nil)
			}
			return respond(r, status, http.Header{"Content-Range": {span}, "Location": {"https://storage.example/file"}}, body)
		})
		s := &Snapshot{Commit: commit, Files: []string{"f"}, client: c, repo: Repo{Type: Dataset, ID: "o/d", Revision: "main"}}
		name := strings.Trim(strings.TrimPrefix(etag, "W/"), `"`)
		partly := filepath.Join(c.folder(s.repo), "blobs", name+".incomplete")
		if filepath.Dir(partly) == filepath.Join(c.folder(s.repo), "blobs") && os.MkdirAll(filepath.Dir(partly), 0o755) == nil {
			os.WriteFile(partly, had, 0o644) // a partial file of an earlier process; not every ETag is a valid name
		}
		path, err := s.Download(t.Context(), "f")
		requireOnlyCache(t, c)
		if err != nil {
			if _, missing := os.Stat(filepath.Join(s.Dir(), "f")); missing == nil || !strings.Contains(err.Error(), "o/d") {
				t.Fatalf("failed with %v, and the file is there: %v", err, missing == nil)
			}
			return
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		whole := slices.Concat(had, body)
		if !bytes.Equal(content, body) && !bytes.Equal(content, whole) && !bytes.Equal(content, had) {
			t.Fatalf("the file is %q, of %q and %q", content, had, body)
		}
		if n, err := strconv.ParseInt(size, 10, 64); err == nil && n >= 0 && int64(len(content)) != n {
			t.Fatalf("the file has %d bytes, announced were %d", len(content), n)
		}
	})
}
