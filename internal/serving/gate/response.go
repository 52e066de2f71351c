package gate

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"
)

// response notes what is answered. A client that does not read it is cut off.
type response struct {
	http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
	linger  time.Duration
	body    *incoming // of the request
	hears   int64     // bytes of a body that is refused, at the most; see hearOut
	status  int
	bytes   int64
}

func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	if status == http.StatusRequestEntityTooLarge {
		w.Header().Set("Connection", "close") // it is told at once: more comes than is waited for
	}
	if status >= http.StatusBadRequest && !w.body.ended.Load() {
		// What is left of the body is read before the answer is sent, for the connection's sake: no longer than this.
		w.control.SetReadDeadline(time.Now().Add(w.linger))
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.bound()
	defer w.unbound()
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// FlushError is what http.ResponseController looks for.
func (w *response) FlushError() error {
	w.bound()
	defer w.unbound()
	return w.control.Flush()
}

// What is taken of a body that is refused: so much of anybody's, and of one who may ask so many times what a request may have; in so many
// times the linger at the most.
const (
	leastHeard = 16 << 20
	patience   = 4
)

// hearOut takes what is left of a body that was refused, and throws it away. Many a client reads no answer before it has sent what it
// has; were the connection closed then, it would learn of that alone.
func (w *response) hearOut() {
	if w.status < http.StatusBadRequest || w.body.ended.Load() || w.FlushError() != nil {
		return
	}
	piece := make([]byte, 32<<10)
	until := time.Now().Add(10 * w.linger)
	for left := max(w.hears, leastHeard); left > 0 && !w.body.ended.Load(); {
		now := time.Now()
		if now.After(until) || w.control.SetReadDeadline(now.Add(w.linger)) != nil {
			return
		}
		n, err := w.body.Read(piece[:min(int64(len(piece)), left)])
		if left -= int64(n); err != nil {
			return
		}
	}
}

// bound begins the time that a client has to read what is sent; where there is no connection there is nobody slow. unbound ends it, as
// HTTP/2 breaks a stream off at a deadline, also where there is nothing to send: an answer may wait for its next token.
func (w *response) bound()   { w.control.SetWriteDeadline(time.Now().Add(w.stall)) }
func (w *response) unbound() { w.control.SetWriteDeadline(time.Time{}) }

// comes is how long the rest of the body may take from now; 0: any time, as nobody reads it while its request waits. A deadline of a body
// that is all there would end the request: the connection is read then to see whether its client leaves.
func (w *response) comes(within time.Duration) {
	if w.body.ended.Load() {
		return
	}
	deadline := time.Time{}
	if within > 0 {
		deadline = time.Now().Add(within)
	}
	w.control.SetReadDeadline(deadline)
}

// Unwrap is too.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// incoming is the body of a request, of which it is known whether all of it was read.
type incoming struct {
	io.ReadCloser
	ended atomic.Bool
}

func newIncoming(r *http.Request) *incoming {
	b := &incoming{ReadCloser: r.Body}
	b.ended.Store(r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0)
	return b
}

func (b *incoming) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.ended.Store(true)
	}
	return n, err
}

// logged is a body that is written to the log as it is read.
type logged struct {
	io.ReadCloser
	log  *slog.Logger
	id   string
	text []byte
	told bool
}

const mostLogged = 1 << 16

func (l *logged) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	l.text = append(l.text, p[:min(n, mostLogged-len(l.text))]...)
	if err != nil && !l.told {
		l.told = true
		l.log.Info("body", "id", l.id, "text", string(l.text))
	}
	return n, err
}
