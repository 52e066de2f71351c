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

// Door is the configuration of the listener. 0 means the default given here.
type Door struct {
	TLS         *tls.Config   // nil: plain HTTP
	Connections int           // concurrent connections; 1,024
	Header      int           // bytes of the headers; 16 KiB
	HeaderTime  time.Duration // to receive the headers; 10 s
	ReadTime    time.Duration // to receive a whole request; 60 s
	Idle        time.Duration // keep-alive between requests; 2 min
	Drain       time.Duration // for requests in progress when the server stops; 30 s
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
func (g *Gate) Serve(ctx context.Context, l net.Listener, door Door, cause error) error {
	set(&door.Connections, 1024)
	set(&door.Header, 16<<10)
	set(&door.HeaderTime, 10*time.Second)
	set(&door.ReadTime, time.Minute)
	set(&door.Idle, 2*time.Minute)
	set(&door.Drain, 30*time.Second)
	g.readTime.Store(int64(door.ReadTime))
	l = &limitListener{Listener: l, most: door.Connections}
	if door.TLS != nil {
		l = tls.NewListener(l, door.TLS)
	}
	work, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	inside := &inProgress{Handler: g}
	server := &http.Server{
		Handler:           inside,
		MaxHeaderBytes:    door.Header,
		ReadHeaderTimeout: door.HeaderTime,
		ReadTimeout:       door.ReadTime,
		IdleTimeout:       door.Idle,
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
	bound, stop := context.WithTimeout(context.WithoutCancel(ctx), door.Drain)
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
