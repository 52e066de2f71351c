package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// lfsType is the media type of Git LFS requests.
const lfsType = "application/vnd.git-lfs+json"

// action is a request to the storage that the Hub asks the client to make.
type action struct {
	Href   string
	Header map[string]json.RawMessage // strings; for a multipart upload also numbers
}

// store uploads a file to the LFS storage of the Hub; not sent: the storage already had it.
func (c *Client) store(ctx context.Context, repo Repo, f Upload) (oid string, sent bool, err error) {
	if oid, err = f.hash(); err != nil {
		return "", false, err
	}
	type object struct {
		OID  string `json:"oid"`
		Size int64  `json:"size"`
	}
	ask := map[string]any{
		"operation": "upload", "transfers": []string{"basic", "multipart"}, "hash_algo": "sha256", "objects": []object{{oid, f.Size}},
	}
	text, err := json.Marshal(ask)
	if err != nil {
		return "", false, err
	}
	var answer struct {
		Objects []struct {
			Error   *struct{ Message string }
			Actions struct{ Upload, Verify *action }
		}
	}
	folder := map[Type]string{Dataset: "datasets/"}[repo.Type]
	address := c.Endpoint + "/" + folder + repo.ID + ".git/info/lfs/objects/batch"
	if err := c.send(ctx, address, lfsType, text, &answer, repo); err != nil {
		return "", false, err
	}
	if len(answer.Objects) != 1 {
		return "", false, fmt.Errorf("the Hub answered about %d files, expected 1", len(answer.Objects))
	}
	o := answer.Objects[0]
	switch {
	case o.Error != nil:
		return "", false, fmt.Errorf("the Hub refuses the file: %.200s", o.Error.Message)
	case o.Actions.Upload == nil:
		return oid, false, nil // already stored
	}
	if size, ok := o.Actions.Upload.Header["chunk_size"]; ok {
		err = c.putParts(ctx, f, oid, o.Actions.Upload, size)
	} else {
		_, err = c.put(ctx, f, 0, f.Size, o.Actions.Upload)
	}
	if err == nil && o.Actions.Verify != nil {
		err = c.post(ctx, o.Actions.Verify.Href, object{oid, f.Size}, nil, repo)
	}
	return oid, err == nil, err
}

// put uploads a range of a file and returns the ETag of the stored part.
func (c *Client) put(ctx context.Context, f Upload, from, size int64, to *action) (tag string, err error) {
	header := http.Header{}
	for key, value := range to.Header {
		var text string
		if json.Unmarshal(value, &text) == nil {
			header.Set(key, text)
		}
	}
	return tag, c.retry(ctx, func() (bool, error) {
		r, err := f.Open()
		if err != nil {
			return false, err
		}
		defer r.Close()
		if file, ok := r.(io.Seeker); ok { // seek where possible, instead of reading all that precedes the part
			_, err = file.Seek(from, io.SeekStart)
		} else {
			_, err = io.CopyN(io.Discard, r, from)
		}
		if err != nil {
			return false, errChanged
		}
		ctx, silence, end := c.stallTimer(ctx)
		defer end()
		resp, err := c.sendOnce(ctx, http.MethodPut, to.Href, header, io.LimitReader(r, size), size, false, silence)
		if err != nil {
			return false, stallError(ctx, err)
		}
		defer resp.Body.Close()
		tag = resp.Header.Get("ETag")
		return false, c.checkStored(resp)
	})
}

// checkStored checks a response of the storage. That is a separate host, to which the hints of check about the token do not apply.
func (c *Client) checkStored(resp *http.Response) error {
	switch code := resp.StatusCode; {
	case code < 300:
		return nil
	case code == http.StatusTooManyRequests || code == http.StatusRequestTimeout || code >= 500:
		return transient{err: fmt.Errorf("the storage answered %s", resp.Status), after: retryAfter(resp.Header.Get("Retry-After"))}
	}
	return fmt.Errorf("the storage answered %s", resp.Status)
}

// putParts makes a multipart upload: parts of the size that the Hub asks for, each to its own URL, then a request that joins them.
func (c *Client) putParts(ctx context.Context, f Upload, oid string, to *action, chunk json.RawMessage) error {
	var text string
	if json.Unmarshal(chunk, &text) != nil {
		text = string(chunk)
	}
	size, err := strconv.ParseInt(text, 10, 64)
	if err != nil || size < 1 || (f.Size+size-1)/size > 10_000 {
		return fmt.Errorf("the Hub asked for parts of %.40s bytes, expected a number above 0", text)
	}
	type part struct {
		Number int    `json:"partNumber"`
		Tag    string `json:"etag"`
	}
	var parts []part
	for n := 1; int64(n-1)*size < f.Size; n++ {
		raw, ok := to.Header[strconv.Itoa(n)]
		for width := 2; !ok && width <= 5; width++ { // padded with zeros
			raw, ok = to.Header[fmt.Sprintf("%0*d", width, n)]
		}
		one := &action{}
		if !ok || json.Unmarshal(raw, &one.Href) != nil {
			return fmt.Errorf("the Hub gave no address for part %d", n)
		}
		from := int64(n-1) * size
		tag, err := c.put(ctx, f, from, min(size, f.Size-from), one)
		if err != nil {
			return fmt.Errorf("part %d: %w", n, err)
		}
		parts = append(parts, part{n, tag})
	}
	ask, err := json.Marshal(map[string]any{"oid": oid, "parts": parts})
	if err != nil {
		return err
	}
	return c.send(ctx, to.Href, lfsType, ask, nil, Repo{})
}

// sendOnce sends a request; reading from its body resets the timer. The token goes only to the Hub itself.
func (c *Client) sendOnce(ctx context.Context, method, address string, header http.Header, body io.Reader, size int64, token bool,
	silence *time.Timer) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, fmt.Errorf("%.200q is not a URL: %w", address, err)
	}
	req.Header = header.Clone()
	req.Header.Set("User-Agent", "grpo")
	req.Body = struct {
		io.Reader
		io.Closer
	}{watchedReader{req.Body, silence, c.stall}, req.Body}
	if req.ContentLength = size; size == 0 {
		req.Body = http.NoBody
	}
	if hub, err := url.Parse(c.Endpoint); token && err == nil && req.URL.Host == hub.Host && req.URL.Scheme == hub.Scheme {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		var op *net.OpError
		return nil, transient{err: fmt.Errorf("%w; check the network, and HF_ENDPOINT", err), dial: errors.As(err, &op) && op.Op == "dial"}
	}
	return resp, nil
}
