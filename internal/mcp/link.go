package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-7879b91d/grpo/internal/apart"
	"github.com/seed-7879b91d/grpo/internal/tail"
)

const (
	endTime  = 2 * time.Second // that a server has to end, before it is made to
	mostGoes = 5               // times that it may end in a row without an answer to a call
)

// unsent is the code of what looks like a server's answer and is none: nobody took the request, or it was refused by its HTTP status.
const unsent = -32005

// Down is the error of a server that cannot be reached, nor started again.
type Down struct {
	Server string
	Err    error
}

func (e *Down) Error() string { return fmt.Sprintf("the MCP server %q %v", e.Server, e.Err) }

// Unwrap gives the cause.
func (e *Down) Unwrap() error { return e.Err }

// link is a session with a server, which begins anew where it ends. Goroutines may share one.
type link struct {
	server *Server
	within time.Duration // of the clock, for a call
	patience
	begins chan struct{} // holds who begins a session: one at a time

	mu      sync.Mutex
	session *session
	goes    int // since a call was last answered
	closed  bool
	ending  sync.WaitGroup
}

// session is one that lasts until something breaks it.
type session struct {
	*sdk.ClientSession
	cmd  *exec.Cmd // nil: the server is elsewhere
	said *tail.Tail
}

// get is the session that there is, or a new one. One that is being begun is waited for, as long as the context lasts.
func (l *link) get(ctx context.Context) (*session, error) {
	select {
	case l.begins <- struct{}{}:
		defer func() { <-l.begins }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if s, err := l.there(); s != nil || err != nil {
		return s, err
	}
	if ctx.Err() != nil { // nothing is started for nobody
		return nil, context.Cause(ctx)
	}
	s, err := l.server.connect(ctx, l.patience)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil && ctx.Err() != nil: // nobody waited for it
		return nil, context.Cause(ctx)
	case err != nil:
		l.goes++
		return nil, &Down{l.server.Name, err}
	case l.closed:
		s.end(false)
		return nil, &Down{l.server.Name, errClosed}
	}
	l.goes++
	l.session = s
	return s, nil
}

var errClosed = errors.New("is closed")

// there is the session that there is, nil where one may be begun.
func (l *link) there() (*session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, &Down{l.server.Name, errClosed}
	case l.session == nil && l.goes >= mostGoes:
		return nil, &Down{l.server.Name, fmt.Errorf("ended %d times without an answer to a call", l.goes)}
	}
	return l.session, nil
}

// client sends the headers of the server, to its host alone.
func (s *Server) client() *http.Client {
	return &http.Client{Transport: carrier{s}}
}

type carrier struct{ server *Server }

func (c carrier) RoundTrip(r *http.Request) (*http.Response, error) {
	if home, err := url.Parse(c.server.URL); err == nil && r.URL.Host == home.Host && len(c.server.Headers) > 0 {
		r = r.Clone(r.Context())
		for name, value := range c.server.Headers {
			r.Header.Set(name, value)
		}
	}
	return http.DefaultTransport.RoundTrip(r)
}

// drop ends a session that is of no use any more. Nobody waits for that but close.
func (l *link) drop(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session != s {
		return
	}
	l.session = nil
	l.ending.Go(func() { s.end(false) })
}

// end ends a session: in order, or at once.
func (s *session) end(inOrder bool) {
	if !inOrder && s.cmd != nil {
		apart.Kill(s.cmd)
	}
	_ = s.Close() // how it ends is its own business
	if s.cmd != nil {
		apart.Kill(s.cmd) // what it has left behind
	}
}

func (l *link) close() {
	l.mu.Lock()
	s := l.session
	l.session, l.closed = nil, true
	l.mu.Unlock()
	if s != nil {
		s.end(true)
	}
	l.ending.Wait()
}

// call has the server do something. What it says is a text, also where it does not like the call; an error says that it cannot be asked.
func (l *link) call(ctx context.Context, name string, args json.RawMessage) (text string, wrong bool, err error) {
	for again := false; ; again = true {
		s, err := l.get(ctx)
		if err != nil {
			return "", false, err
		}
		text, wrong, err = l.ask(ctx, s, name, args)
		if err == nil || ctx.Err() != nil {
			return text, wrong, err
		}
		l.drop(s)
		if again || !errors.Is(err, sdk.ErrSessionMissing) { // a server that does not know the session has not begun with the call
			broke := s.broken(err)
			_, err = l.get(ctx)
			return broke + s.said.Last(), true, err
		}
	}
}

// broken says how a session came to its end. A program that prints beside what it answers, or answers what nobody can read, has not
// ended by itself.
func (s *session) broken(err error) string {
	var none *json.SyntaxError
	cause := strings.TrimPrefix(err.Error(), `calling "tools/call": `)
	switch {
	case errors.As(err, &none):
		return fmt.Sprintf("error: the server printed what is no answer, and was ended (%v)", none)
	case s.cmd == nil:
		return "error: the server gave no answer that can be read"
	case !slices.ContainsFunc(ends, func(end error) bool { return errors.Is(err, end) }):
		return fmt.Sprintf("error: the answer of the server cannot be read, and it was ended (%s)", cause)
	}
	return "error: the server ended before it answered"
}

// ends are what becomes of a pipe behind which a program has ended.
var ends = []error{io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, fs.ErrClosed, syscall.EPIPE,
	sdk.ErrConnectionClosed, sdk.ErrSessionMissing}

// ask asks in a session. An error is the end of it, or of the run.
func (l *link) ask(ctx context.Context, s *session, name string, args json.RawMessage) (text string, wrong bool, err error) {
	limited, cancel := context.WithTimeout(ctx, l.within)
	defer cancel()
	returned := l.bound(limited, s)
	r, err := s.CallTool(limited, &sdk.CallToolParams{Name: name, Arguments: args})
	returned()
	var refused *jsonrpc.Error
	switch {
	case err == nil: // also where the time was up just then
		l.answered()
		return words(r), r.IsError, nil
	case ctx.Err() != nil:
		return "", false, context.Cause(ctx)
	case limited.Err() != nil:
		if !l.lives(ctx, s) {
			l.drop(s)
		}
		return fmt.Sprintf("error: no answer within %v", l.within), true, nil
	case errors.Is(err, sdk.ErrConnectionClosed), errors.Is(err, sdk.ErrSessionMissing):
		return "", false, err
	case errors.As(err, &refused) && refused.Code != unsent:
		l.answered()
		if strings.TrimSpace(refused.Message) == "" {
			return fmt.Sprintf("error: the server refused the call (code %d), and does not say why", refused.Code), true, nil
		}
		return "error: " + refused.Message, true, nil
	}
	return "", false, err
}

func (l *link) answered() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.goes = 1
}

// lives tells whether a server that is slow answers at all.
func (l *link) lives(ctx context.Context, s *session) bool {
	ctx, cancel := context.WithTimeout(ctx, l.sign)
	defer cancel()
	defer l.bound(ctx, s)()
	err := s.Ping(ctx, nil)
	var refused *jsonrpc.Error
	return err == nil || errors.As(err, &refused)
}

// bound ends a session if what is asked in it has not returned a while after its time was up: what is written to a server waits until
// that reads it, whatever the time.
func (l *link) bound(limited context.Context, s *session) (returned func()) {
	over := make(chan struct{})
	context.AfterFunc(limited, func() {
		select {
		case <-over:
		case <-time.After(endTime):
			l.drop(s)
		}
	})
	return func() { close(over) }
}
