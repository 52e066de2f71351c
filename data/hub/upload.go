package hub

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Upload is a file to publish.
type Upload struct {
	Path string // in the repository, with slashes
	Size int64
	Open func() (io.ReadCloser, error)
}

// sampleSize is the number of bytes by which the Hub decides how a file is to be uploaded.
const sampleSize = 512

// largest is the maximum size of a file in the commit request itself; the Hub refuses larger ones.
const largest = 10 << 20

// Published is the result of Publish.
type Published struct {
	Commit string // the hash
	URL    string
	Stored int // files that were uploaded to the LFS storage, which did not have them yet
}

// Publish commits files to a repository, which it creates if needed. Other files in it stay as they are. say, if not nil, is
// called before each LFS upload and before the commit.
func (c *Client) Publish(ctx context.Context, repo Repo, private bool, message string, files []Upload, say func(string)) (
	*Published, error,
) {
	repo.Revision = orElse(repo.Revision, "main")
	if err := c.checkUpload(repo); err != nil {
		return nil, err
	}
	if say == nil {
		say = func(string) {}
	}
	if err := c.create(ctx, repo, private); err != nil {
		return nil, fmt.Errorf("create %s: %w", repo.ID, err)
	}
	wanted, err := c.preupload(ctx, repo, files)
	if err != nil {
		return nil, fmt.Errorf("ask %s how to upload the files: %w", repo.ID, err)
	}
	done := &Published{}
	var body bytes.Buffer
	lines := json.NewEncoder(&body)
	type entry struct {
		Key   string         `json:"key"`
		Value map[string]any `json:"value"`
	}
	if err := lines.Encode(entry{"header", map[string]any{"summary": message, "description": ""}}); err != nil {
		return nil, err
	}
	for _, f := range files {
		e := entry{Key: "file"}
		if wanted[f.Path] == "lfs" || f.Size > largest {
			say(f.Path)
			oid, sent, err := c.store(ctx, repo, f)
			if err != nil {
				return nil, fmt.Errorf("upload %s: %w", f.Path, err)
			}
			if sent {
				done.Stored++
			}
			e.Key, e.Value = "lfsFile", map[string]any{"path": f.Path, "algo": "sha256", "oid": oid, "size": f.Size}
		} else {
			content, err := f.read(largest)
			if err != nil {
				return nil, err
			}
			e.Value = map[string]any{"path": f.Path, "encoding": "base64", "content": base64.StdEncoding.EncodeToString(content)}
		}
		if err := lines.Encode(e); err != nil {
			return nil, err
		}
	}
	say("the commit")
	return done, c.commit(ctx, repo, body.Bytes(), done)
}

// checkUpload refuses an upload that cannot succeed before anything is sent.
func (c *Client) checkUpload(repo Repo) error {
	switch {
	case c.Offline:
		return badinput.Errorf("HF_HUB_OFFLINE forbids publishing %s; unset it", repo.ID)
	case c.Token == "":
		return badinput.Errorf("publishing needs a token: make one that may write at %s/settings/tokens and set HF_TOKEN", c.Endpoint)
	}
	return cmp.Or(c.checkEndpoint(), CheckName(repo.ID))
}

// CheckName checks that a name is of the form owner/name.
func CheckName(id string) error {
	if !repoID.MatchString(id) || strings.Count(id, "/") != 1 || strings.Contains(id, "..") || strings.Contains(id, "--") {
		return badinput.Errorf("%q is not the name of a repository on the Hub (owner/name)", id)
	}
	return nil
}

// create makes the repository, unless it exists.
func (c *Client) create(ctx context.Context, repo Repo, private bool) error {
	owner, name, _ := strings.Cut(repo.ID, "/")
	ask := map[string]any{"type": string(repo.Type), "name": name, "organization": owner, "private": private}
	err := c.post(ctx, c.Endpoint+"/api/repos/create", ask, nil, repo, http.StatusConflict)
	return err
}

// preupload asks the Hub how to upload each file: "regular", in the commit, or "lfs", to the LFS storage.
func (c *Client) preupload(ctx context.Context, repo Repo, files []Upload) (map[string]string, error) {
	type file struct {
		Path   string `json:"path"`
		Size   int64  `json:"size"`
		Sample string `json:"sample"`
	}
	var ask struct {
		Files []file `json:"files"`
	}
	for _, f := range files {
		start, err := f.read(sampleSize)
		if err != nil {
			return nil, err
		}
		ask.Files = append(ask.Files, file{f.Path, f.Size, base64.StdEncoding.EncodeToString(start)})
	}
	var answer struct {
		Files []struct{ Path, UploadMode string }
	}
	if err := c.post(ctx, c.api(repo, "preupload"), ask, &answer, repo); err != nil {
		return nil, err
	}
	modes := map[string]string{}
	for _, f := range answer.Files {
		modes[f.Path] = f.UploadMode
	}
	return modes, nil
}

// api is the URL of an API call about a repository.
func (c *Client) api(repo Repo, verb string) string {
	return fmt.Sprintf("%s/api/%ss/%s/%s/%s", c.Endpoint, repo.Type, repo.ID, verb, url.PathEscape(repo.Revision))
}

// commit sends the commit, which is one JSON entry per line.
func (c *Client) commit(ctx context.Context, repo Repo, lines []byte, done *Published) error {
	var answer struct{ CommitOid, CommitURL string }
	err := c.send(ctx, c.api(repo, "commit"), "application/x-ndjson", lines, &answer, repo)
	if err != nil {
		return fmt.Errorf("commit to %s: %w", repo.ID, err)
	}
	done.Commit, done.URL = answer.CommitOid, answer.CommitURL
	return nil
}

// post sends JSON and decodes the answer, unless that is nil. The statuses in fine count as success.
func (c *Client) post(ctx context.Context, address string, ask, answer any, repo Repo, fine ...int) error {
	text, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	return c.send(ctx, address, "application/json", text, answer, repo, fine...)
}

// send posts a body of any media type to the Hub.
func (c *Client) send(ctx context.Context, address, kind string, body []byte, answer any, repo Repo, fine ...int) error {
	header := http.Header{"Content-Type": {kind}}
	if kind == lfsType {
		header["Accept"] = []string{lfsType}
	}
	return c.retry(ctx, func() (bool, error) {
		ctx, silence, end := c.stallTimer(ctx)
		defer end()
		resp, err := c.sendOnce(ctx, http.MethodPost, address, header, bytes.NewReader(body), int64(len(body)), true, silence)
		if err != nil {
			return false, stallError(ctx, err)
		}
		defer resp.Body.Close()
		for _, code := range fine {
			if resp.StatusCode == code {
				return false, nil
			}
		}
		if err := c.checkWrite(resp, repo); err != nil {
			return false, err
		}
		if answer == nil {
			return false, nil
		}
		text, err := io.ReadAll(io.LimitReader(watchedReader{resp.Body, silence, c.stall}, 16<<20))
		if err != nil {
			return false, stallError(ctx, transient{err: err})
		}
		if err := json.Unmarshal(text, answer); err != nil {
			return false, fmt.Errorf("the Hub at %s did not answer with JSON: %w", c.Endpoint, err)
		}
		return false, nil
	})
}

// checkWrite is check with messages for writing.
func (c *Client) checkWrite(resp *http.Response, repo Repo) error {
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		return badinput.Errorf("the Hub refuses this HF_TOKEN (401): check it at %s/settings/tokens", c.Endpoint)
	case http.StatusForbidden:
		return badinput.Errorf("this HF_TOKEN may not write to %s (403): make one that may at %s/settings/tokens, or check the owner: "+
			"it is your name, or an organisation that you belong to", repo.ID, c.Endpoint)
	}
	return c.check(resp, repo, "")
}

// read returns at most the first most bytes of a file.
func (f Upload) read(most int64) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, badinput.Errorf("%w", err)
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, most))
}

// hash is the SHA-256 of a file, whose size must not have changed.
func (f Upload) hash() (string, error) {
	r, err := f.Open()
	if err != nil {
		return "", badinput.Errorf("%w", err)
	}
	defer r.Close()
	h := sha256.New()
	n, err := io.Copy(h, r)
	if err == nil && n != f.Size {
		err = errChanged
	}
	return hex.EncodeToString(h.Sum(nil)), err
}

var errChanged = errors.New("the file changed during the upload; type the same command again when its run has ended")
