package watch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/loopback"
	"github.com/seed-7879b91d/grpo/internal/samples/browser"
	"github.com/seed-7879b91d/grpo/internal/watch"
)

// Serve shows runs to browsers until ctx ends. It prints the URL of their list; with a view, the URL of that view of the only run.
func Serve(ctx context.Context, out io.Writer, address string, paths []string, view string) error {
	local, err := loopback.Is(address)
	if err != nil {
		return badinput.Errorf("--listen: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	k := newRunSources(ctx)
	o := watch.Options{Paths: paths, Statement: k.statement, Samples: browser.Lookup{Problem: k.problem, Pieces: k.pieces}, WriteIndex: true}
	ticket := ""
	if local {
		o.Hosts = loopback.Names
	} else {
		ticket = rand.Text()
		o.Authorize = watch.Ticket(ticket)
	}
	s, err := watch.New(o)
	if err != nil {
		return err
	}
	runs := s.Runs()
	if view != "" && len(runs) != 1 {
		return badinput.Errorf("%s: expected the directory of one run, and found %d; type grpo watch %s to see all that are in it", paths[0],
			len(runs), display.ShellQuote(paths[0]))
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return badinput.Errorf("--listen: %w; type another address, such as 127.0.0.1:0 for any that is free", err)
	}
	where, elsewhere := addressOf(listener.Addr())
	said := counted(len(runs))
	if view != "" {
		where, said = where+(&url.URL{Path: view + runs[0]}).String(), "samples of "+display.Line(runs[0])
	}
	if ticket != "" {
		where += "?ticket=" + ticket
	}
	fmt.Fprintf(out, "%s at %s%s\n^C ends this; the runs do not notice.\n", said, where, elsewhere)
	return serve(ctx, s, listener)
}

func counted(runs int) string {
	switch runs {
	case 0:
		return "no run yet"
	case 1:
		return "1 run"
	}
	return fmt.Sprintf("%d runs", runs)
}

// serve serves until ctx ends.
func serve(ctx context.Context, s *watch.Server, listener net.Listener) error {
	ctx, stop := context.WithCancel(ctx)
	defer s.Close()
	defer stop()
	go s.Watch(ctx)
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	context.AfterFunc(ctx, func() { server.Close() })
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// addressOf is the URL to open on this machine, and a note if other machines can reach it too.
func addressOf(at net.Addr) (where, elsewhere string) {
	if tcp, ok := at.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return fmt.Sprintf("http://localhost:%d/", tcp.Port), ", from another machine by the name of this one"
	}
	return "http://" + at.String() + "/", ""
}
