package hub

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// writableHub is a Hub that accepts repositories and commits, with a storage for large files on another host.
type writableHub struct {
	hub, storage *httptest.Server

	mu       sync.Mutex
	parts    int // bytes of a part of a large file; 0: in one piece
	made     map[string]any
	stored   map[string][]byte // by address
	objects  map[string]bool   // in the storage
	files    map[string]string // of the last commit
	verified []string
	message  string
	trouble  func(w http.ResponseWriter, r *http.Request) bool
	leaked   bool // the token was sent to the storage
}

func newWritableHub(t *testing.T) *writableHub {
	h := &writableHub{stored: map[string][]byte{}, objects: map[string]bool{}}
	h.hub = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.trouble != nil && h.trouble(w, r) {
			return
		}
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		h.serve(w, r)
	}))
	h.storage = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.trouble != nil && h.trouble(w, r) {
			return
		}
		h.leaked = h.leaked || r.Header.Get("Authorization") != ""
		h.stored[r.URL.Path], _ = io.ReadAll(r.Body)
		w.Header().Set("ETag", fmt.Sprintf(`"%d"`, len(h.stored[r.URL.Path])))
	}))
	t.Cleanup(h.hub.Close)
	t.Cleanup(h.storage.Close)
	return h
}

func (h *writableHub) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var ask map[string]any
	json.Unmarshal(body, &ask)
	switch r.URL.Path {
	case "/api/repos/create":
		if h.made != nil {
			w.WriteHeader(http.StatusConflict)
			return
		}
		h.made = ask
	case "/api/models/me/coder/preupload/main":
		var files []map[string]any
		for _, f := range ask["files"].([]any) {
			path, mode := f.(map[string]any)["path"].(string), "regular"
			if strings.HasSuffix(path, ".safetensors") {
				mode = "lfs"
			}
			files = append(files, map[string]any{"path": path, "uploadMode": mode})
		}
		json.NewEncoder(w).Encode(map[string]any{"files": files})
	case "/me/coder.git/info/lfs/objects/batch":
		json.NewEncoder(w).Encode(map[string]any{"objects": []any{h.batch(ask["objects"].([]any)[0].(map[string]any))}})
	case "/complete":
		for i, p := range ask["parts"].([]any) {
			content := h.stored[fmt.Sprintf("/part/%d", i+1)]
			if got := p.(map[string]any)["etag"]; got != fmt.Sprintf(`"%d"`, len(content)) {
				http.Error(w, "another tag", http.StatusBadRequest)
				return
			}
			h.stored["/"+ask["oid"].(string)] = append(h.stored["/"+ask["oid"].(string)], content...)
		}
	case "/verify":
		h.verified = append(h.verified, ask["oid"].(string))
	case "/api/models/me/coder/commit/main":
		h.commit(body)
		json.NewEncoder(w).Encode(map[string]string{"commitOid": commit, "commitUrl": "x"})
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// batch answers how to upload a large file.
func (h *writableHub) batch(o map[string]any) map[string]any {
	oid, size := o["oid"].(string), int(o["size"].(float64))
	switch {
	case h.objects[oid]:
		return map[string]any{"oid": oid}
	case h.parts == 0:
		return map[string]any{"actions": map[string]any{
			"upload": map[string]any{"href": h.storage.URL + "/" + oid, "header": map[string]string{"X-Signed": "yes"}},
			"verify": map[string]any{"href": h.hub.URL + "/verify"}}}
	}
	header := map[string]string{"chunk_size": fmt.Sprint(h.parts)}
	for n := 1; (n-1)*h.parts < size; n++ {
		header[fmt.Sprintf("%05d", n)] = fmt.Sprintf("%s/part/%d", h.storage.URL, n)
	}
	return map[string]any{"actions": map[string]any{"upload": map[string]any{"href": h.hub.URL + "/complete", "header": header}}}
}

func (h *writableHub) commit(body []byte) {
	h.files = map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(body)); lines.Scan(); {
		var line struct {
			Key   string
			Value map[string]any
		}
		json.Unmarshal(lines.Bytes(), &line)
		switch line.Key {
		case "header":
			h.message = line.Value["summary"].(string)
		case "file":
			content, _ := base64.StdEncoding.DecodeString(line.Value["content"].(string))
			h.files[line.Value["path"].(string)] = string(content)
		case "lfsFile":
			h.files[line.Value["path"].(string)] = "sha256:" + line.Value["oid"].(string)
		}
	}
}

func (h *writableHub) client() *Client {
	c := New(h.hub.URL, "secret", "")
	c.sleep = func(context.Context, time.Duration) error { return nil }
	return c
}

func upload(path string, content []byte) Upload {
	return Upload{path, int64(len(content)), func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }}
}

func TestPublish(t *testing.T) {
	weights := bytesOf(1000)
	sum := sha256.Sum256(weights)
	oid := hex.EncodeToString(sum[:])
	files := []Upload{upload("README.md", []byte("# x\n")), upload("adapter_model.safetensors", weights), upload("training/none.json", nil)}
	model := Repo{Type: Model, ID: "me/coder"}
	for _, c := range []struct {
		name  string
		parts int
		there bool
	}{{"in one piece", 0, false}, {"in parts", 300, false}, {"there already", 0, true}} {
		t.Run(c.name, func(t *testing.T) {
			h := newWritableHub(t)
			h.parts, h.objects[oid] = c.parts, c.there
			failures := 2 // temporary ones, of the Hub and of the storage
			h.trouble = func(w http.ResponseWriter, r *http.Request) bool {
				if failures > 0 && (r.Method == http.MethodPut || strings.Contains(r.URL.Path, "preupload")) {
					failures--
					w.WriteHeader(http.StatusServiceUnavailable)
					return true
				}
				return false
			}
			for range 2 { // the second time the repository exists
				done, err := h.client().Publish(t.Context(), model, true, "a message", files, nil)
				if err != nil {
					t.Fatal(err)
				}
				if done.Commit != commit || (done.Stored == 0) != c.there {
					t.Fatalf("%+v", done)
				}
				want := map[string]string{"README.md": "# x\n", "adapter_model.safetensors": "sha256:" + oid, "training/none.json": ""}
				if fmt.Sprint(h.files) != fmt.Sprint(want) || h.message != "a message" {
					t.Fatalf("found %v %q", h.files, h.message)
				}
				if !c.there && !bytes.Equal(h.stored["/"+oid], weights) {
					t.Fatalf("stored %d bytes", len(h.stored["/"+oid]))
				}
				delete(h.stored, "/"+oid)
			}
			if h.made["name"] != "coder" || h.made["organization"] != "me" || h.made["private"] != true || h.made["type"] != "model" {
				t.Fatalf("made %v", h.made)
			}
			if h.leaked {
				t.Fatal("the token left the Hub")
			}
			if c.parts == 0 && !c.there && len(h.verified) != 2 {
				t.Fatalf("verified %v", h.verified)
			}
		})
	}
}

// countFile is a file that counts the bytes read from it.
type countFile struct {
	*bytes.Reader
	read *int
}

func (c countFile) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	*c.read += n
	return n, err
}

func (c countFile) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, struct{ io.Reader }{c}) }

func (c countFile) Close() error { return nil }

// A file uploaded in parts is read as often as one in one piece, however many parts there are.
func TestPartsAreReadOnce(t *testing.T) {
	h, read, weights := newWritableHub(t), 0, bytesOf(10_000)
	h.parts = 200
	f := Upload{"adapter_model.safetensors", 10_000, func() (io.ReadCloser, error) { return countFile{bytes.NewReader(weights), &read}, nil }}
	if _, err := h.client().Publish(t.Context(), Repo{Type: Model, ID: "me/coder"}, true, "a message", []Upload{f}, nil); err != nil {
		t.Fatal(err)
	}
	if read > 3*len(weights) {
		t.Errorf("%d bytes were read of a file of %d", read, len(weights))
	}
}

func TestPublishSaysWhatToType(t *testing.T) {
	files := []Upload{upload("README.md", []byte("x"))}
	status := func(at string, code int) func(w http.ResponseWriter, r *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(r.URL.Path, at) {
				w.WriteHeader(code)
			}
			return strings.Contains(r.URL.Path, at)
		}
	}
	for _, c := range []struct {
		change  func(c *Client)
		trouble func(w http.ResponseWriter, r *http.Request) bool
		id      string
		says    string
	}{
		{func(c *Client) { c.Token = "" }, nil, "me/coder", "set HF_TOKEN"},
		{func(c *Client) { c.Token = "wrong" }, nil, "me/coder", "refuses this HF_TOKEN (401)"},
		{func(c *Client) { c.Offline = true }, nil, "me/coder", "unset it"},
		{nil, nil, "coder", "owner/name"},
		{nil, nil, "../x", "owner/name"},
		{nil, status("create", http.StatusForbidden), "me/coder", "may not write to me/coder (403)"},
		{nil, status("commit", http.StatusForbidden), "me/coder", "may not write to me/coder (403)"},
	} {
		h := newWritableHub(t)
		h.trouble = c.trouble
		client := h.client()
		if c.change != nil {
			c.change(client)
		}
		_, err := client.Publish(t.Context(), Repo{Type: Model, ID: c.id}, false, "x", files, nil)
		if err == nil || !strings.Contains(err.Error(), c.says) || !badinput.Is(err) {
			t.Fatalf("%s: %v", c.says, err)
		}
		if h.files != nil {
			t.Fatal("something was committed")
		}
	}
}

// If a file changes before it is sent, publishing fails.
func TestPublishRefusesAFileThatChanges(t *testing.T) {
	h := newWritableHub(t)
	f := upload("a.safetensors", bytesOf(100))
	f.Size = 90
	_, err := h.client().Publish(t.Context(), Repo{Type: Model, ID: "me/coder"}, false, "x", []Upload{f}, nil)
	if err == nil || !strings.Contains(err.Error(), "changed during the upload") {
		t.Fatal(err)
	}
}

// If the receiver of a transfer stops reading, the transfer is cancelled and repeated.
func TestPublishToWhoStopsReading(t *testing.T) {
	t.Parallel()
	large := bytesOf(8 << 20)
	files := []Upload{upload("a.txt", large), upload("b.txt", large), upload("c.safetensors", bytes.Repeat(large, 3))}
	for _, at := range []string{"/commit/", "PUT"} {
		t.Run(strings.Trim(at, "/"), func(t *testing.T) {
			t.Parallel()
			h, deaf := newWritableHub(t), false
			h.trouble = func(w http.ResponseWriter, r *http.Request) bool {
				if deaf || !strings.Contains(r.Method+r.URL.Path, at) {
					return false
				}
				conn, _, err := w.(http.Hijacker).Hijack() // never read from
				if err != nil {
					t.Error(err)
				}
				t.Cleanup(func() { conn.Close() })
				deaf = true
				return true
			}
			client := h.client()
			client.stall = 2 * time.Second
			if _, err := client.Publish(t.Context(), Repo{Type: Model, ID: "me/coder"}, true, "a message", files, nil); err != nil {
				t.Fatal(err)
			}
			if !deaf || h.files == nil {
				t.Fatalf("%v, committed: %v", deaf, h.files != nil)
			}
		})
	}
}
