package openenv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
)

// Result is an answer of the server.
type Result struct {
	Observation json.RawMessage `json:"observation"`
	Reward      *Reward         `json:"reward"`
	Done        bool            `json:"done"`
}

// Reward is a number, or a boolean: 1 or 0.
type Reward float64

// UnmarshalJSON reads either.
func (r *Reward) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case "true":
		*r = 1
	case "false":
		*r = 0
	default:
		return json.Unmarshal(text, (*float64)(r))
	}
	return nil
}

// RejectedError is the error of an action that the server does not accept.
type RejectedError struct{ Why string }

func (e *RejectedError) Error() string { return e.Why }

// Session is a session of an environment. Its methods are called one after the other.
type Session struct {
	server *Server
	conn   *websocket.Conn // nil: over HTTP
	broken error
}

// message is a WebSocket message, in either direction.
type message struct {
	Type string          `json:"type"`
	Data json.RawMessage `json:"data,omitempty"`
}

// failure is the data of an error message.
type failure struct {
	Code    string          `json:"code"`
	Message string          `json:"message"`
	Errors  json.RawMessage `json:"errors"`
}

func (f failure) String() string {
	text := f.Message
	if len(f.Errors) > 0 {
		text += ": " + string(f.Errors)
	}
	return text
}

// errFull is the error of a server that is at its limit of sessions.
var errFull = errors.New("has no room for a session")

// Begin starts a session, and resets it with the parameters. It waits if there is no room.
func (s *Server) Begin(ctx context.Context, parameters map[string]any) (*Session, Result, error) {
	var r Result
	if err := s.enter(ctx); err != nil {
		return nil, r, err
	}
	patience := time.Now().Add(beginTime)
	for {
		session, r, err := s.begin(ctx, parameters)
		if err == nil {
			return session, r, nil
		}
		full := errors.Is(err, errFull)
		if full {
			if s.full() > 0 { // wait for one of ours to end
				s.leave()
				if err := s.enter(ctx); err != nil {
					return nil, r, err
				}
				continue
			}
		}
		if ctx.Err() != nil || !full || time.Now().After(patience) {
			s.leave()
			return nil, r, err
		}
		select { // clients elsewhere, or one of ours that the server is still closing
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// begin makes one attempt.
func (s *Server) begin(ctx context.Context, parameters map[string]any) (*Session, Result, error) {
	limited, cancel := context.WithTimeout(ctx, beginTime)
	defer cancel()
	session := &Session{server: s}
	if !s.plain {
		at := s.base.JoinPath("ws")
		conn, response, err := websocket.Dial(limited, at.String(), &websocket.DialOptions{HTTPHeader: s.header()})
		switch {
		case err == nil:
			conn.SetReadLimit(mostReply)
			session.conn = conn
		case !s.known && response != nil && response.StatusCode >= 400 && response.StatusCode < 500:
			s.noteSingleSession()
		default:
			return nil, Result{}, s.down("cannot be reached: %w", cause(limited, err))
		}
	}
	if parameters == nil {
		parameters = map[string]any{}
	}
	r, err := session.exchange(limited, "reset", parameters)
	if err != nil {
		session.hang()
	}
	return session, r, err
}

// noteSingleSession notes that the server has no WebSockets, and so only one session.
func (s *Server) noteSingleSession() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plain, s.limit = true, 1
}

// Step takes an action. A *RejectedError means that the server did not accept it; after any other error the session is unusable.
func (c *Session) Step(ctx context.Context, action map[string]any) (Result, error) {
	if c.broken != nil {
		return Result{}, c.broken
	}
	limited, cancel := context.WithTimeout(ctx, c.server.Timeout)
	defer cancel()
	r, err := c.exchange(limited, "step", action)
	var refused *RejectedError
	if err != nil && !errors.As(err, &refused) {
		if ctx.Err() == nil && limited.Err() != nil {
			err = c.server.down("gave no answer within %v; make it faster, or raise turn_seconds", c.server.Timeout)
		}
		c.broken = err
	}
	return r, err
}

// exchange sends a request and reads the answer.
func (c *Session) exchange(ctx context.Context, kind string, data map[string]any) (r Result, err error) {
	if c.conn == nil {
		return c.exchangeHTTP(ctx, kind, data)
	}
	text, err := json.Marshal(data)
	if err != nil {
		return r, err
	}
	var reply message
	if err = wsjson.Write(ctx, c.conn, message{kind, text}); err == nil {
		err = wsjson.Read(ctx, c.conn, &reply)
	}
	if err != nil {
		return r, c.server.down("broke off: %w", cause(ctx, err))
	}
	switch reply.Type {
	case "observation":
		err = json.Unmarshal(reply.Data, &r)
	case "error":
		var f failure
		if err = json.Unmarshal(reply.Data, &f); err == nil {
			return r, c.failed(kind, f)
		}
	default:
		err = fmt.Errorf("its type is %.40q", reply.Type)
	}
	if err != nil {
		return r, c.server.down("answered %s with something unexpected: %w", kind, err)
	}
	return r, nil
}

// failed distinguishes a refused action from a failure of the server.
func (c *Session) failed(kind string, f failure) error {
	switch {
	case f.Code == "CAPACITY_REACHED":
		return c.server.down("%w: %s", errFull, f)
	case f.Code == "VALIDATION_ERROR" && kind == "step":
		return &RejectedError{f.String()}
	}
	return c.server.down("reports %s: %s", f.Code, f)
}

// exchangeHTTP is exchange over HTTP.
func (c *Session) exchangeHTTP(ctx context.Context, kind string, data map[string]any) (r Result, err error) {
	body := maps.Clone(data)
	if kind == "step" {
		body = map[string]any{"action": data}
	}
	status, err := c.server.ask(ctx, http.MethodPost, "/"+kind, body, &r)
	if status == http.StatusUnprocessableEntity && kind == "step" {
		var down *UnavailableError
		if errors.As(err, &down) {
			err = &RejectedError{down.Err.Error()}
		}
	}
	return r, err
}

// hang closes the connection at once.
func (c *Session) hang() {
	if c.conn != nil {
		_ = c.conn.CloseNow()
	}
}

// Close ends the session.
func (c *Session) Close() {
	if c.conn != nil && c.broken == nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		if wsjson.Write(ctx, c.conn, message{Type: "close"}) == nil {
			_, _, _ = c.conn.Read(ctx) // until the server has closed the session
		}
		cancel()
	}
	c.hang()
	c.server.leave()
}
