package remote

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/precondition"
)

// Options say which session, and on which server.
type Options struct {
	URL  string       // of the server, such as http://127.0.0.1:8000
	Key  string       // "": none is needed
	HTTP *http.Client // nil: the default client

	ID       string         // of a session to resume; "": a new one with the following options
	Model    string         // a model of the server; "" if it serves only one
	Settings map[string]any // by the keys of a configuration
	Problems []data.Problem // to train on; nil: those of the server's configuration
}

// Session is a trainer on a server; M is the type of a step's metrics. Lost calls are repeated, and take effect once. It is not
// safe for concurrent use.
type Session[M any] struct {
	ID    string
	steps int
	o     Options
}

// Open creates a session, or resumes one.
func Open[M any](ctx context.Context, o Options) (*Session[M], error) {
	precondition.NotNil("grpo.OpenRemote", "ctx", ctx)
	s := &Session[M]{ID: o.ID, o: o}
	if u, err := url.Parse(o.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, badinput.Errorf("URL: found %q, expected that of a server, such as http://127.0.0.1:8000", o.URL)
	}
	if o.ID != "" {
		state, err := s.State(ctx)
		s.steps = state.Steps
		return s, err
	}
	ask := BeginRequest{Model: o.Model, Settings: map[string]json.RawMessage{}}
	for key, v := range o.Settings {
		text, err := json.Marshal(v)
		if err != nil {
			return nil, badinput.Errorf("settings: %s: %w", key, err)
		}
		ask.Settings[key] = text
	}
	var err error
	if ask.Problems, err = rows(ctx, o.Problems); err != nil {
		return nil, err
	}
	var state State
	if err := s.call(ctx, "POST", "", ask, &state); err != nil {
		return nil, err
	}
	s.ID = state.ID
	return s, nil
}

// rows are problems as rows of a task file; nil for nil.
func rows(ctx context.Context, problems []data.Problem) ([]json.RawMessage, error) {
	if problems == nil {
		return nil, nil
	}
	all := make([]json.RawMessage, len(problems))
	for i := range problems {
		tests, err := problems[i].Tests(ctx)
		if err != nil {
			return nil, err
		}
		if all[i], err = json.Marshal(data.Record{Problem: problems[i], Tests: tests}); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// State returns the state of the session.
func (s *Session[M]) State(ctx context.Context) (state State, err error) {
	return state, s.call(ctx, "GET", "", nil, &state)
}

// StepsDone is the number of steps taken.
func (s *Session[M]) StepsDone() int { return s.steps }

// Step takes one step on a subset of problems; nil: the session's next problems. iterations is the number of updates on the same
// completions; 0: as configured.
func (s *Session[M]) Step(ctx context.Context, subset []data.Problem, iterations int) (m M, err error) {
	problems, err := rows(ctx, subset)
	next := s.steps + 1
	if err == nil {
		err = s.call(ctx, "POST", "/train_step", StepRequest{Step: (*Integer)(&next), Problems: problems, Iterations: Integer(iterations)}, &m)
	}
	if err == nil {
		s.steps++
	}
	return m, err
}

// Sample samples n completions of each problem from the current policy, and scores them; temperature 0 is greedy. Repeated
// with the same policy, it returns the same.
func (s *Session[M]) Sample(ctx context.Context, problems []data.Problem, n int, temperature float32) ([]Group, error) {
	said, err := json.Marshal(temperature)
	if err != nil {
		return nil, err
	}
	ask := SampleRequest{N: (*Integer)(&n), Temperature: said}
	if ask.Problems, err = rows(ctx, problems); err != nil {
		return nil, err
	}
	var got Sampled
	err = s.call(ctx, "POST", "/sample", ask, &got)
	return got.Groups, err
}

// Save saves the adapter of the last step on the server, and serves it if there is a name.
func (s *Session[M]) Save(ctx context.Context, serveAs string) (saved Saved, err error) {
	return saved, s.call(ctx, "POST", "/save", SaveRequest{ServeAs: serveAs}, &saved)
}

// Finish ends the training: the adapter of the last step is saved, and the session's memory is freed.
func (s *Session[M]) Finish(ctx context.Context) (saved Saved, err error) {
	return saved, s.call(ctx, "POST", "/finish", SaveRequest{}, &saved)
}

// Delete removes the session and what it has saved from the server.
func (s *Session[M]) Delete(ctx context.Context) error { return s.call(ctx, "DELETE", "", nil, nil) }

// Download writes a saved adapter to a new directory, in PEFT's format.
func (s *Session[M]) Download(ctx context.Context, saved Saved, dir string) error {
	var archive bytes.Buffer
	if err := s.call(ctx, "GET", "/saved/"+strconv.Itoa(saved.Step), nil, &archive); err != nil {
		return err
	}
	return atomicfile.WriteDir(dir, func(unfinished string) error {
		for in := tar.NewReader(&archive); ; {
			head, err := in.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if head.Name != filepath.Base(head.Name) || !filepath.IsLocal(head.Name) {
				return fmt.Errorf("the archive of the adapter has a file %q, expected names without folders", head.Name)
			}
			text, err := io.ReadAll(in)
			if err == nil {
				err = atomicfile.WriteBytes(filepath.Join(unfinished, head.Name), text)
			}
			if err != nil {
				return err
			}
		}
	})
}

// RejectedError is the error of a call for which a retry is no use.
type RejectedError struct {
	Status int
	Text   string
}

func (e *RejectedError) Error() string {
	return fmt.Sprintf("the server refuses (%d): %s", e.Status, e.Text)
}

// call makes a call until it is answered. While the server answers 202, the request is repeated: the server recognises it.
func (s *Session[M]) call(ctx context.Context, method, path string, in, out any) error {
	var text []byte
	if in != nil {
		var err error
		if text, err = json.Marshal(in); err != nil {
			return err
		}
	}
	once, wait, tries := rand.Text(), 50*time.Millisecond, 0
	var last error // of the last attempt
	for {
		status, answer, err := s.once(ctx, method, path, once, text)
		switch {
		case ctx.Err() != nil:
			return contextError(ctx, last)
		case err == nil && status == http.StatusAccepted:
			tries, wait, last = 0, 50*time.Millisecond, nil
			continue
		case err == nil && status < 300:
			return read(answer, out)
		case err == nil && !slices.Contains(retryStatuses, status):
			return &RejectedError{status, reason(answer)}
		case tries == mostTries:
			return cmp.Or(err, error(&RejectedError{status, reason(answer)}))
		}
		tries, last = tries+1, cmp.Or(err, error(&RejectedError{status, reason(answer)}))
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return contextError(ctx, last)
		}
		wait = min(2*wait, 5*time.Second)
	}
}

// contextError is the error of a call whose context ended, with the last error before that.
func contextError(ctx context.Context, last error) error {
	if last == nil {
		return ctx.Err()
	}
	return fmt.Errorf("%w; before that: %v", ctx.Err(), last)
}

// retryStatuses are the statuses of a server that is overloaded, or of a proxy whose server is away.
var retryStatuses = []int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}

// mostTries is how many attempts in a row may fail so; it takes some minutes.
const mostTries = 60

func (s *Session[M]) once(ctx context.Context, method, path, once string, text []byte) (status int, answer []byte, err error) {
	at := strings.TrimSuffix(s.o.URL, "/") + "/v1/sessions"
	if s.ID != "" {
		at += "/" + s.ID
	}
	r, err := http.NewRequestWithContext(ctx, method, at+path, bytes.NewReader(text))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Idempotency-Key", once)
	if s.o.Key != "" {
		r.Header.Set("Authorization", "Bearer "+s.o.Key)
	}
	res, err := cmp.Or(s.o.HTTP, http.DefaultClient).Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	answer, err = io.ReadAll(res.Body)
	return res.StatusCode, answer, err
}

func read(answer []byte, out any) error {
	if whole, ok := out.(*bytes.Buffer); ok {
		whole.Write(answer)
		return nil
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}

// reason is the message of a refusal.
func reason(answer []byte) string {
	var said struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(answer, &said) != nil || said.Error.Message == "" {
		return string(answer[:min(len(answer), 200)])
	}
	return said.Error.Message
}
