package openenv

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"text/template"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

const (
	beginTime   = time.Minute // for a server to begin a session, or to have room for one
	pause       = 200 * time.Millisecond
	mostReply   = 32 << 20 // bytes
	sessionsMax = 64       // at a time
)

// Options say where a server is and how to talk to it.
type Options struct {
	URL      string
	Action   string             // the field for the text; "json": the text is the action; "": by the server's schema
	Template *template.Template // renders an observation; nil: its fields
	Timeout  time.Duration      // limit for the answer to an action
}

// Server is a server that was reached.
type Server struct {
	Options
	base   *url.URL
	token  string
	client *http.Client
	plain  bool // it has no WebSockets
	known  bool // plain is known
	field  field
	fields []string // fields of observations by the schema; nil: unknown

	Notes []string // for the user

	mu    sync.Mutex
	freed *sync.Cond
	open  int // sessions
	limit int // the most sessions, as far as is known
}

// UnavailableError is the error of a server that does not answer as it should.
type UnavailableError struct {
	URL string
	Err error
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("the OpenEnv server %s %v", e.URL, e.Err)
}

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

func (s *Server) down(format string, args ...any) error {
	return &UnavailableError{s.String(), fmt.Errorf(format, args...)}
}

// Open fetches the schema of actions, and starts a session as a test.
func Open(ctx context.Context, o Options) (*Server, error) {
	u, err := url.Parse(o.URL)
	if err == nil {
		u.Scheme = strings.Replace(u.Scheme, "ws", "http", 1)
	}
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, badinput.Errorf("env=openenv:%s: expected an address, such as env=openenv:http://localhost:8000", o.URL)
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	s := &Server{Options: o, base: u, token: os.Getenv("OPENENV_TOKEN"), client: &http.Client{}, limit: sessionsMax}
	s.freed = sync.NewCond(&s.mu)
	if err := s.fetchSchema(ctx); err != nil {
		return nil, err
	}
	session, r, err := s.Begin(ctx, nil)
	if err != nil {
		return nil, badinput.Errorf("%w; check that it is up, and serves an environment", err)
	}
	session.Close()
	s.known = true
	s.checkWords(r)
	return s, nil
}

// String is the URL without what may be secret.
func (s *Server) String() string { return s.base.Scheme + "://" + s.base.Host + s.base.Path }

// Describe describes for the user how actions are made.
func (s *Server) Describe() string {
	how := "sessions by WebSocket"
	if s.plain {
		how = "no WebSockets: one session at a time by HTTP"
	}
	return fmt.Sprintf("%s, %s, %s", s, s.field, how)
}

// fetchSchema fetches the schema of actions.
func (s *Server) fetchSchema(ctx context.Context) (err error) {
	var schema struct {
		Action      json.RawMessage `json:"action"`
		Observation json.RawMessage `json:"observation"`
	}
	ctx, cancel := context.WithTimeout(ctx, beginTime)
	defer cancel()
	status, failed := s.ask(ctx, http.MethodGet, "/schema", nil, &schema)
	if failed != nil && status == 0 {
		return badinput.Errorf("%w; check that it is up, and the address", failed)
	}
	s.fields = properties(schema.Observation)
	s.field, err = choose(schema.Action, s.Options.Action)
	switch { // a missing schema is fine; a refusal or a failure is not
	case err == nil:
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return badinput.Errorf("%w; set OPENENV_TOKEN to its token", failed)
	case status >= 500:
		return badinput.Errorf("%w; check that it is up, and serves an environment", failed)
	case failed != nil: // it need not be an OpenEnv server at all
		return badinput.Errorf("%w; check that it is an OpenEnv server; if it has no /schema, type openenv_action=NAME of the field for the "+
			"model's text, or openenv_action=json", failed)
	}
	return err
}

// ask makes an HTTP request. Status 0 means that the server was not reached.
func (s *Server) ask(ctx context.Context, method, path string, body, reply any) (status int, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	r, err := http.NewRequestWithContext(ctx, method, s.base.JoinPath(path).String(), strings.NewReader(string(text)))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	for name, values := range s.header() {
		r.Header[name] = values
	}
	response, err := s.client.Do(r)
	if err != nil {
		return 0, s.down("cannot be reached: %w", cause(ctx, err))
	}
	defer response.Body.Close()
	text, err = io.ReadAll(io.LimitReader(response.Body, mostReply))
	if err != nil {
		return response.StatusCode, s.down("broke off: %w", cause(ctx, err))
	}
	if response.StatusCode != http.StatusOK {
		said := fmt.Sprintf(": %.300s", bytes.TrimSpace(text))
		if strings.HasPrefix(said, ": <") { // an HTML page
			said = ""
		}
		return response.StatusCode, s.down("answered %s with %s%s", path, response.Status, said)
	}
	if err := json.Unmarshal(text, reply); err != nil {
		return response.StatusCode, s.down("answered %s with something unexpected: %w", path, err)
	}
	return response.StatusCode, nil
}

// cause is the cause of the context's end, if it ended, else the error.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if lost := new(url.Error); errors.As(err, &lost) { // the message names the server already
		return lost.Err
	}
	return err
}

func (s *Server) header() http.Header {
	h := http.Header{}
	if s.token != "" {
		h.Set("Authorization", "Bearer "+s.token)
	}
	return h
}

// enter waits for room for a session.
func (s *Server) enter(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.freed.Broadcast()
	})
	defer stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.open >= s.limit {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s.freed.Wait()
	}
	s.open++
	return nil
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	s.freed.Broadcast()
}

// full notes that the server has no room beyond the current sessions, and returns how many others there are.
func (s *Server) full() (others int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	others = s.open - 1
	s.limit = min(s.limit, max(others, 1))
	return others
}
