// Package watch is the verb that shows runs while they go on: in a browser, or in the terminal.
package watch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/loopback"
	"github.com/seed-7879b91d/grpo/internal/watch"
)

type flags struct {
	listen    string
	tui, once bool
}

// Command is the verb.
func Command() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "watch [RUN|DIR …] [--listen ADDRESS | --tui]",
		Short: "Show runs while they go on, in a browser or in the terminal",
		Long: `Serves a page with all runs in the folders, and the report of each, drawn again within a second of every step. Nothing is
written, and the trainer is not asked: it may end, be killed and begin again meanwhile; runs that begin later appear by themselves.
Without a folder, that is runs.

An address that other machines reach wants a ticket, which is part of the address that is printed. --tui draws one run in the
terminal: curves, where the time goes, advice, and what the model wrote last.

/metrics has the last values of all runs for Prometheus; where a ticket is wanted, /metrics?ticket=TICKET.`,
		Example: `  grpo watch
  grpo watch runs/first --tui
  grpo watch runs/first --tui --once
  grpo watch runs /data/more --listen 0.0.0.0:7770`,
		RunE: func(cmd *cobra.Command, paths []string) error {
			if len(paths) == 0 {
				paths = []string{"runs"}
			}
			if f.once && !f.tui {
				return badinput.Errorf("--once draws one picture in the terminal; type --tui --once")
			}
			if f.tui {
				return watchHere(cmd.Context(), cmd.OutOrStdout(), paths, f.once)
			}
			return serve(cmd.Context(), cmd.OutOrStdout(), paths, f.listen)
		},
	}
	cmd.Flags().StringVar(&f.listen, "listen", "127.0.0.1:7770", "`address` of the pages")
	cmd.Flags().BoolVar(&f.tui, "tui", false, "draw one run in the terminal")
	cmd.Flags().BoolVar(&f.once, "once", false, "with --tui: draw it once, and end")
	cmd.MarkFlagsMutuallyExclusive("listen", "tui")
	return cmd
}

// serve shows runs to browsers until ctx ends.
func serve(ctx context.Context, out io.Writer, paths []string, address string) error {
	local, err := loopback.Is(address)
	if err != nil {
		return badinput.Errorf("--listen: %w", err)
	}
	o := watch.Options{Paths: paths, Statement: newStatements(ctx).of}
	if local {
		o.Hosts = loopback.Names
	} else {
		o.Ticket = rand.Text()
	}
	s, err := watch.New(o)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return badinput.Errorf("--listen: %w; type another address, such as 127.0.0.1:0 for any that is free", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go s.Watch(ctx)
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	context.AfterFunc(ctx, func() { server.Close() })
	greet(out, s, listener.Addr(), o.Ticket)
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// greet says where the pages are.
func greet(out io.Writer, s *watch.Server, at net.Addr, ticket string) {
	address := "http://" + at.String() + "/"
	if ticket != "" {
		if tcp, ok := at.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
			address = fmt.Sprintf("http://THIS-MACHINE:%d/", tcp.Port)
		}
		address += "?ticket=" + ticket
	}
	runs := "no run yet"
	if n := len(s.Runs()); n == 1 {
		runs = "1 run"
	} else if n > 1 {
		runs = fmt.Sprintf("%d runs", n)
	}
	fmt.Fprintf(out, "%s at %s\n^C ends this; the runs do not notice.\n", runs, address)
}
