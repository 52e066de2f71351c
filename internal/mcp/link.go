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

	"github.com/seed-7879b91d/grpo/internal/procgroup"
	"github.com/seed-7879b91d/grpo/internal/tail"
)

const (
	endTime  = 2 * time.Second // for a server to exit by itself before it is killed
	mostGoes = 5               // how often a server may end in a row without answering a call
)

// codeUnsent is the error code of a request that nobody answered: it was not taken, or refused with an HTTP status.
const codeUnsent = -32005

// UnavailableError is the error of a server that cannot be reached or restarted.
type UnavailableError struct {
	Server string
	Err    error
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("the MCP server %q %v", e.Server, e.Err)
}

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// link is a session with a server that is restarted when it ends. It may be shared by goroutines.
type link struct {
	server *Server
	within time.Duration // limit for a call
	patience
	begins chan struct{} // semaphore: one session is started at a time

	mu      sync.Mutex
	session *session
	goes    int // ends since a call was last answered
	closed  bool
	ending  sync.WaitGroup
}

// session is one session, until it breaks.
type session struct {
	*sdk.ClientSession
	cmd  *exec.Cmd // nil: a remote server
	said *tail.Tail
}

// get returns the current session or a new one. If one is being started, it waits for that until the context ends.
func (l *link) get(ctx context.Context) (*session, error) {
	select {
	case l.begins <- struct{}{}:
		defer func() { <-l.begins }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if s, err := l.current(); s != nil || err != nil {
		return s, err
	}
	if ctx.Err() != nil { // nobody waits for it any more
		return nil, context.Cause(ctx)
	}
	s, err := l.server.connect(ctx, l.patience)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil && ctx.Err() != nil: // it was cancelled, and says nothing about the server
		return nil, context.Cause(ctx)
	case err != nil:
		l.goes++
		return nil, &UnavailableError{l.server.Name, err}
	case l.closed:
		s.end(false)
		return nil, &UnavailableError{l.server.Name, errClosed}
	}
	l.goes++
	l.session = s
	return s, nil
}

var errClosed = errors.New("is closed")

// current returns the current session; nil if a new one may be started.
func (l *link) current() (*session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, &UnavailableError{l.server.Name, errClosed}
	case l.session == nil && l.goes >= mostGoes:
		return nil, &UnavailableError{l.server.Name, fmt.Errorf("ended %d times without an answer to a call", l.goes)}
	}
	return l.session, nil
}

// client is an HTTP client that sends the server's headers, and only to its host.
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

// drop ends a broken session in the background; close waits for that.
func (l *link) drop(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session != s {
		return
	}
	l.session = nil
	l.ending.Go(func() { s.end(false) })
}

// end ends a session, orderly or at once.
func (s *session) end(inOrder bool) {
	if !inOrder && s.cmd != nil {
		procgroup.Kill(s.cmd)
	}
	_ = s.Close() // its exit status does not matter
	if s.cmd != nil {
		procgroup.Kill(s.cmd) // processes that it left running
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

// call calls a tool. text is its output, or what is wrong with the call; an error means that the server cannot be asked.
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
		if again || !errors.Is(err, sdk.ErrSessionMissing) { // if the session is unknown, the call was not executed: repeat it once
			broke := s.broken(err)
			_, err = l.get(ctx)
			return broke + s.said.Last(), true, err
		}
	}
}

// broken says how a session ended. If the program printed something that is no answer, that is told instead, as it did not end by
// itself.
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

// ends are the errors of a pipe to a program that has ended.
var ends = []error{io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, fs.ErrClosed, syscall.EPIPE,
	sdk.ErrConnectionClosed, sdk.ErrSessionMissing}

// ask makes the call in a session. An error means the end of the session, or of the run.
func (l *link) ask(ctx context.Context, s *session, name string, args json.RawMessage) (text string, wrong bool, err error) {
	limited, cancel := context.WithTimeout(ctx, l.within)
	defer cancel()
	returned := l.bound(limited, s)
	r, err := s.CallTool(limited, &sdk.CallToolParams{Name: name, Arguments: args})
	returned()
	var refused *jsonrpc.Error
	switch {
	case err == nil: // even if the time ran out just then
		l.answered()
		return resultText(r), r.IsError, nil
	case ctx.Err() != nil:
		return "", false, context.Cause(ctx)
	case limited.Err() != nil:
		if !l.pings(ctx, s) {
			l.drop(s)
		}
		return fmt.Sprintf("error: no answer within %v", l.within), true, nil
	case errors.Is(err, sdk.ErrConnectionClosed), errors.Is(err, sdk.ErrSessionMissing):
		return "", false, err
	case errors.As(err, &refused) && refused.Code != codeUnsent:
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

// pings reports whether a slow server answers a ping.
func (l *link) pings(ctx context.Context, s *session) bool {
	ctx, cancel := context.WithTimeout(ctx, l.sign)
	defer cancel()
	defer l.bound(ctx, s)()
	err := s.Ping(ctx, nil)
	var refused *jsonrpc.Error
	return err == nil || errors.As(err, &refused)
}

// bound ends a session if a request has not returned a while after its time ran out: a write to a server that does not read blocks
// regardless of the context.
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
