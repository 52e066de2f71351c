package gate

import (
	"context"
	"crypto/tls"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// ListenOptions is the configuration of the listener. 0 means the default given here.
type ListenOptions struct {
	TLS               *tls.Config   // nil: plain HTTP
	MaxConnections    int           // concurrent connections; 1,024
	MaxHeaderBytes    int           // bytes of the headers; 16 KiB
	ReadHeaderTimeout time.Duration // to receive the headers; 10 s
	ReadTimeout       time.Duration // to receive a whole request; 60 s
	IdleTimeout       time.Duration // keep-alive between requests; 2 min
	DrainTimeout      time.Duration // for requests in progress when the server stops; 30 s
}

// LoadTLS reads a certificate and its key from files.
func LoadTLS(cert, key string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, badinput.Errorf("--tls-cert %s, --tls-key %s: %w", cert, key, err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}, nil
}

// Serve serves the gate until ctx ends. It then refuses new requests and waits for those in progress; after door.Drain
// these end with the given cause.
func (g *Gate) Serve(ctx context.Context, l net.Listener, door ListenOptions, cause error) error {
	set(&door.MaxConnections, 1024)
	set(&door.MaxHeaderBytes, 16<<10)
	set(&door.ReadHeaderTimeout, 10*time.Second)
	set(&door.ReadTimeout, time.Minute)
	set(&door.IdleTimeout, 2*time.Minute)
	set(&door.DrainTimeout, 30*time.Second)
	g.readTime.Store(int64(door.ReadTimeout))
	l = &limitListener{Listener: l, most: door.MaxConnections}
	if door.TLS != nil {
		l = tls.NewListener(l, door.TLS)
	}
	work, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	inside := &inProgress{Handler: g}
	server := &http.Server{
		Handler:           inside,
		MaxHeaderBytes:    door.MaxHeaderBytes,
		ReadHeaderTimeout: door.ReadHeaderTimeout,
		ReadTimeout:       door.ReadTimeout,
		IdleTimeout:       door.IdleTimeout,
		BaseContext:       func(net.Listener) context.Context { return work },
		ConnContext:       withVisitor,
		ErrorLog:          slogLines(g.Log),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return err // the listener failed
	case <-ctx.Done():
	}
	g.Drain()
	bound, stop := context.WithTimeout(context.WithoutCancel(ctx), door.DrainTimeout)
	defer stop()
	// Connections are still accepted here, so that readiness probes are answered.
	inside.wait(bound)
	err := server.Shutdown(bound)
	if errors.Is(err, context.DeadlineExceeded) {
		end(cause) // cause is what streams end with
		last, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer stop()
		if err = server.Shutdown(last); err != nil {
			err = server.Close()
		}
	}
	return err
}

// inProgress counts the requests in progress.
type inProgress struct {
	http.Handler
	n atomic.Int64
}

func (i *inProgress) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.n.Add(1)
	defer i.n.Add(-1)
	i.Handler.ServeHTTP(w, r)
}

// wait waits until there are none, or for the context.
func (i *inProgress) wait(ctx context.Context) {
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for i.n.Load() > 0 {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}

// slogLines logs the messages of net/http about connections.
func slogLines(to *slog.Logger) *log.Logger {
	return slog.NewLogLogger(to.Handler(), slog.LevelDebug)
}
