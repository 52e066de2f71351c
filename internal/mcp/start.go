package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-7879b91d/grpo/internal/procgroup"
	"github.com/seed-7879b91d/grpo/internal/tail"
	"github.com/seed-7879b91d/grpo/internal/version"
)

// patience is how long to wait for a server.
type patience struct {
	start time.Duration // to become ready: some are downloaded first
	sign  time.Duration // to answer a first request that it may not know
}

var usualPatience = patience{start: 2 * time.Minute, sign: 5 * time.Second} // shorter in tests

// discover is the first request of the newest protocol. Servers of older ones should refuse it; some do not answer at all.
const discover = "server/discover"

// connect starts a server, or connects to it.
func (s *Server) connect(ctx context.Context, p patience) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, p.start)
	defer cancel()
	made, silent, err := s.begin(ctx, p.sign)
	if refused := new(jsonrpc.Error); silent && errors.As(err, &refused) {
		made, _, err = s.begin(ctx, p.start) // it knows only the newest protocol, and was slow to start
	}
	switch {
	case err == nil:
		return made, nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("(%s) did not answer \"initialize\" within %v%s", s, p.start, made.said.Last())
	}
	if _, printed, is := strings.Cut(err.Error(), "client is closing: invalid "); is && made.cmd != nil {
		return nil, fmt.Errorf("(%s) printed something other than messages on its standard output (invalid %s)%s", s, printed, made.said.Last())
	}
	if lost := new(url.Error); errors.As(err, &lost) { // without the calls of the SDK, which say nothing to the user
		return nil, fmt.Errorf("(%s) cannot be reached: %s", s, s.withoutSecrets(lost.Err))
	}
	if s.URL != "" { // it answered, but with a refusal, or not as a server of this protocol
		return nil, fmt.Errorf("(%s) cannot be used: %s", s, s.withoutSecrets(err))
	}
	if strings.HasSuffix(err.Error(), "client is closing: EOF") && made.cmd != nil {
		return nil, fmt.Errorf("(%s) ended before it answered \"initialize\"%s", s, made.said.Last())
	}
	return nil, fmt.Errorf("(%s) cannot be started: %s%s", s, s.withoutSecrets(err), made.said.Last())
}

// begin finds the protocol of a server: it tries the newest, and if that gets no answer in time (silent), the older ones.
func (s *Server) begin(ctx context.Context, within time.Duration) (made *session, silent bool, err error) {
	client := sdk.NewClient(&sdk.Implementation{Name: "grpo", Version: cmp.Or(version.Program(), "(devel)")},
		&sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{}})
	client.AddSendingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			if method != discover {
				return next(ctx, method, r)
			}
			limited, cancel := context.WithTimeout(ctx, within)
			defer cancel()
			result, err := next(limited, method, r)
			silent = err != nil && limited.Err() != nil
			return result, err
		}
	})
	made = &session{said: &tail.Tail{}}
	var way sdk.Transport
	if s.Command != "" {
		made.cmd = exec.Command(s.Command, s.Args...)
		made.cmd.Env, made.cmd.Dir, made.cmd.Stderr, made.cmd.WaitDelay = s.environment(), s.Dir, made.said, endTime
		procgroup.Set(made.cmd)
		way = &sdk.CommandTransport{Command: made.cmd, TerminateDuration: endTime}
	} else {
		way = &sdk.StreamableClientTransport{Endpoint: s.URL, HTTPClient: s.client(), DisableStandaloneSSE: true, MaxRetries: -1}
	}
	made.ClientSession, err = client.Connect(ctx, way, nil)
	if err != nil && made.cmd != nil && made.cmd.Process != nil {
		procgroup.Kill(made.cmd)
	}
	return made, silent, err
}
