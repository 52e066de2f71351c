package referee

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"text/template"
	"time"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Config is the endpoint, and how to use it.
type Config struct {
	URL    string // of the API, as in http://host:8000/v1
	Model  string
	Prompt string // a template; "" is prompt.tmpl
	Score  string // a regular expression with one group around the number; "" is the default way to read an answer
	Key    string // the API key, if the endpoint needs one

	Budget      int64         // most requests; 0 is no bound
	Concurrency int           // concurrent requests; 0 is 8
	Timeout     time.Duration // of one request; 0 is a minute
	Cache       string        // a folder for answers; "" caches none
}

// Referee is a client of the judge model. It is safe for concurrent use.
type Referee struct {
	cfg      Config
	endpoint string
	prompt   *template.Template
	pattern  *regexp.Regexp
	turns    chan struct{}
	sent     atomic.Int64
	pause    time.Duration // before the second try; it doubles with each try
}

const (
	tries      = 5
	mostReply  = 4 << 20
	mostPaused = time.Minute
)

// New makes a referee. It sends nothing.
func New(cfg Config) (*Referee, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, badinput.Errorf("judge_url: found %q, expected the address of an API; type judge_url=http://host:8000/v1", cfg.URL)
	}
	r := &Referee{cfg: cfg, pause: time.Second}
	if u.Path = strings.TrimSuffix(u.Path, "/"); !strings.HasSuffix(u.Path, "/chat/completions") {
		u.Path += "/chat/completions"
	}
	r.endpoint = u.String()
	if cfg.Prompt == "" {
		cfg.Prompt = usualPrompt
	}
	if r.prompt, err = parsePrompt(cfg.Prompt); err != nil {
		return nil, err
	}
	if r.pattern, err = parsePattern(cfg.Score); err != nil {
		return nil, err
	}
	if cfg.Concurrency == 0 {
		cfg.Concurrency = 8
	}
	r.turns = make(chan struct{}, cfg.Concurrency)
	if r.cfg.Timeout == 0 {
		r.cfg.Timeout = time.Minute
	}
	return r, nil
}

// Sent is the number of requests sent so far.
func (r *Referee) Sent() int64 { return r.sent.Load() }

// Prompt is the prompt about a completion.
func (r *Referee) Prompt(q *Question) (string, error) { return fill(r.prompt, q) }

// Ask returns the score in the answer to a prompt. If there is none, the note says why: the endpoint failed, the budget is used up, or
// the answer has no score. An error is the context's, or of the cache.
func (r *Referee) Ask(ctx context.Context, prompt string) (score float64, note string, err error) {
	kept := r.place(prompt)
	if kept != "" {
		if answer, err := os.ReadFile(kept); err == nil {
			if score, err = read(r.pattern, string(answer)); err == nil {
				return score, "", nil
			}
		}
	}
	answer, failed := r.complete(ctx, prompt)
	if ctx.Err() != nil {
		return 0, "", context.Cause(ctx)
	}
	if failed == nil {
		score, failed = read(r.pattern, answer)
	}
	if failed != nil {
		return 0, failed.Error(), nil
	}
	if kept == "" {
		return score, "", nil
	}
	if err := os.MkdirAll(filepath.Dir(kept), 0o755); err != nil {
		return 0, "", fmt.Errorf("cache the judge's answer: %w", err)
	}
	if err := atomicfile.WriteBytes(kept, []byte(answer)); err != nil {
		return 0, "", fmt.Errorf("cache the judge's answer: %w", err)
	}
	return score, "", nil
}

// place is the cache file of the answer to a prompt, "" without a cache.
func (r *Referee) place(prompt string) string {
	if r.cfg.Cache == "" {
		return ""
	}
	name := fmt.Sprintf("%x", sha256.Sum256([]byte(r.cfg.Model+"\x00"+prompt)))
	return filepath.Join(r.cfg.Cache, name[:2], name)
}

// complete sends a prompt until there is an answer, the tries or the budget are used up, or a retry makes no sense.
func (r *Referee) complete(ctx context.Context, prompt string) (string, error) {
	body, err := json.Marshal(request{Model: r.cfg.Model, Messages: []message{{"user", prompt}}})
	if err != nil {
		return "", err
	}
	select {
	case r.turns <- struct{}{}:
		defer func() { <-r.turns }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	pause := r.pause
	for try := 1; ; try++ {
		if n := r.sent.Add(1); r.cfg.Budget > 0 && n > r.cfg.Budget {
			r.sent.Add(-1)
			return "", fmt.Errorf("the %d requests of judge_budget are used up", r.cfg.Budget)
		}
		answer, again, err := r.send(ctx, body)
		if err == nil || again < 0 || try == tries || ctx.Err() != nil {
			return answer, err
		}
		select {
		case <-time.After(min(max(pause, again), mostPaused)):
		case <-ctx.Done():
			return "", ctx.Err()
		}
		pause *= 2
	}
}

// send sends one request. After a failure, again is the shortest time until a retry (Retry-After), negative if a retry makes no
// sense.
func (r *Referee) send(ctx context.Context, body []byte) (answer string, again time.Duration, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.cfg.Timeout, fmt.Errorf("no answer within %v", r.cfg.Timeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.endpoint, bytes.NewReader(body))
	if err != nil {
		return "", -1, err
	}
	req.Header.Set("Content-Type", "application/json")
	if r.cfg.Key != "" {
		req.Header.Set("Authorization", "Bearer "+r.cfg.Key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%s: %w", r.endpoint, context.Cause(ctx))
		}
		return "", 0, err
	}
	defer resp.Body.Close()
	if resp.Request.Method != http.MethodPost { // the redirect has dropped the body, and the prompt with it
		return "", -1, fmt.Errorf("%s redirects to %s; use that as judge_url", r.endpoint, resp.Request.URL)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, mostReply))
	if err != nil {
		return "", 0, fmt.Errorf("%s: %w", r.endpoint, err)
	}
	if resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", r.endpoint, resp.Status, explain(text))
		if s := resp.StatusCode; s < 500 && s != http.StatusTooManyRequests && s != http.StatusRequestTimeout {
			return "", -1, err
		}
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return "", time.Duration(max(seconds, 0)) * time.Second, err
	}
	answer, cut, err := parseReply(text)
	if err == nil && cut && !hasStatedScore(r.pattern, answer) { // its last number belongs to the reasoning: the score never came
		return "", -1, fmt.Errorf("the answer was cut off before its score, %s; raise the token limit of the endpoint, or ask for a shorter "+
			"answer in judge_prompt",
			clip(answer))
	}
	return answer, 0, err
}
