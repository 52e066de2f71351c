package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// transient is a failure after which a retry may succeed.
type transient struct {
	err   error
	after time.Duration // how long the server asked to wait
	dial  bool          // no connection could be made
}

func (t transient) Error() string { return t.err.Error() }
func (t transient) Unwrap() error { return t.err }

const (
	attempts     = 6                // in a row without a byte of progress
	dialAttempts = 3                // of them, where there seems to be no network
	longWait     = 10 * time.Minute // a server that asks for more is not waited for
	shortWait    = time.Second      // before the second attempt; doubled from then on
)

// retry repeats try while it fails for a transient reason. try says whether it made progress, in which
// case the count starts over: a long file over a bad line may break many times.
func (c *Client) retry(ctx context.Context, try func() (moved bool, err error)) error {
	for n := 1; ; n++ {
		moved, err := try()
		var t transient
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !errors.As(err, &t):
			return err
		case moved:
			n = 0
		case n == attempts || n == dialAttempts && t.dial:
			return fmt.Errorf("after %d attempts: %w", n, err)
		case t.after > longWait:
			return fmt.Errorf("%w (the server asks to wait %s)", err, t.after)
		}
		wait := t.after
		if wait == 0 {
			wait = shortWait << max(n-1, 0)
			wait += rand.N(wait / 2)
		}
		if err := c.sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// checkEndpoint refuses an endpoint or a token with which no request is possible, before it is retried in vain.
func (c *Client) checkEndpoint() error {
	at, err := url.Parse(c.Endpoint)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return badinput.Errorf("HF_ENDPOINT: found %q, expected an address such as https://huggingface.co", c.Endpoint)
	}
	if strings.ContainsFunc(c.Token, unicode.IsControl) {
		return badinput.Errorf("HF_TOKEN, or the file that has the token: found more than one line, expected the token alone")
	}
	return nil
}

// do sends one request. The answer may be of any status.
func (c *Client) do(ctx context.Context, method, address string, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return nil, badinput.Errorf("HF_ENDPOINT %s: %w", c.Endpoint, err)
	}
	for key, values := range header {
		req.Header[key] = values
	}
	req.Header.Set("User-Agent", "grpo")
	req.Header.Set("Accept-Encoding", "identity") // sizes and ranges are those of the file itself
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	} else if c.user != nil {
		password, _ := c.user.Password()
		req.SetBasicAuth(c.user.Username(), password)
	}
	resp, err := c.http.Do(req)
	if errors.Is(err, errRedirects) {
		return nil, badinput.Errorf("%w; check HF_ENDPOINT, or set HF_HUB_OFFLINE=1 to use the cache", err)
	}
	if err != nil {
		var op *net.OpError
		return nil, transient{
			err: fmt.Errorf("%w; set HF_HUB_OFFLINE=1 to use the cache",
				err), dial: errors.As(err, &op) && op.Op == "dial",
		}
	}
	return resp, nil
}

// read returns the body of a response. A silent connection counts as broken.
func (c *Client) read(ctx context.Context, address string, repo Repo) ([]byte, error) {
	ctx, silence, end := c.stallTimer(ctx)
	defer end()
	resp, err := c.do(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, stallError(ctx, err)
	}
	defer resp.Body.Close()
	if err := c.check(resp, repo, ""); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(watchedReader{resp.Body, silence, c.stall}, 256<<20))
	if err != nil {
		return nil, stallError(ctx, transient{err: err})
	}
	return text, nil
}

// stallTimer returns a context that is cancelled when its timer expires, and the timer, which a transfer must reset as long as data
// arrives. end stops it.
func (c *Client) stallTimer(ctx context.Context) (_ context.Context, silence *time.Timer, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	silence = time.AfterFunc(c.stall, func() { cancel(errStalled) })
	return ctx, silence, func() {
		silence.Stop()
		cancel(nil)
	}
}

// watchedReader resets the timer with each read.
type watchedReader struct {
	io.Reader
	silence *time.Timer
	stall   time.Duration
}

func (h watchedReader) Read(p []byte) (int, error) {
	h.silence.Reset(h.stall)
	return h.Reader.Read(p)
}

// errRedirects is the error about a circle of redirects, which is not retried.
var errRedirects = errors.New("more than 10 redirects")

// redirect follows the Hub to its storage, but never carries the token to another host. A HEAD
// request stays on the Hub, which alone announces hash and size.
func redirect(req *http.Request, via []*http.Request) error {
	if len(via) >= 10 {
		return errRedirects
	}
	if req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme {
		if req.Method == http.MethodHead {
			return http.ErrUseLastResponse
		}
		req.Header.Del("Authorization")
	}
	return nil
}

// check turns a status into an error that says what to do. file is "" for the repository itself.
func (c *Client) check(resp *http.Response, repo Repo, file string) error {
	page := fmt.Sprintf("%s/%s%s", c.Endpoint, map[Type]string{Dataset: "datasets/"}[repo.Type], repo.ID)
	switch code := resp.StatusCode; {
	case code < 300:
		return nil
	case resp.Header.Get("X-Error-Code") == "GatedRepo" && c.Token == "":
		return badinput.Errorf("%s is gated (%d): accept its terms at %s, make a token at %s/settings/tokens and set HF_TOKEN",
			repo, code, page, c.Endpoint)
	case resp.Header.Get("X-Error-Code") == "GatedRepo":
		return badinput.Errorf("%s is gated (%d), and the account of this HF_TOKEN has no access: accept the terms at %s; a fine-grained "+
			"token also needs access to gated repositories", repo, code, page)
	case code == http.StatusUnauthorized && c.Token == "":
		return badinput.Errorf("the Hub requires a token (401): set HF_TOKEN (make one at %s/settings/tokens), or check the name: %s",
			c.Endpoint, page)
	case code == http.StatusUnauthorized:
		return badinput.Errorf("the Hub refuses this HF_TOKEN (401): check it at %s/settings/tokens, and the name: %s", c.Endpoint, page)
	case code == http.StatusForbidden:
		return badinput.Errorf("the Hub refuses access (403): accept the terms at %s with the account of HF_TOKEN", page)
	case code == http.StatusNotFound:
		return notFound(resp.Header.Get("X-Error-Code"), page, repo, file)
	case code == http.StatusTooManyRequests || code == http.StatusRequestTimeout || code >= 500:
		return transient{err: fmt.Errorf("the Hub answered %s", resp.Status), after: retryAfter(resp.Header.Get("Retry-After"))}
	default:
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
		return fmt.Errorf("the Hub answered %s: %s", resp.Status, strings.Join(strings.Fields(string(text)), " "))
	}
}

func notFound(code, page string, repo Repo, file string) error {
	switch {
	case code == "RevisionNotFound":
		return badinput.Errorf("%s has no revision %q (404)", page, repo.Revision)
	case code == "EntryNotFound" || file != "":
		return badinput.Errorf("%s has no file %q at %q (404)", page, file, repo.Revision)
	}
	if code == "" { // the header is the Hub's; other servers do not send it
		return badinput.Errorf("there is no %s (404): check the name, and HF_ENDPOINT", page)
	}
	return badinput.Errorf("there is no %s (404): check the name", page)
}

// retryAfter reads the header, which has seconds or a date; 0 if it is missing.
func retryAfter(text string) time.Duration {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && seconds > 0 && seconds < 1e9 {
		return time.Duration(seconds * float64(time.Second))
	}
	if date, err := http.ParseTime(text); err == nil {
		return max(time.Until(date), 0)
	}
	return 0
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
