package gate

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"
)

// response counts what is answered, and cuts off clients that do not read it.
type response struct {
	http.ResponseWriter
	control    *http.ResponseController
	stall      time.Duration
	linger     time.Duration
	body       *incoming // the request's body
	drainLimit int64     // the most bytes that drainBody reads of a refused body
	status     int
	bytes      int64
}

func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	if status == http.StatusRequestEntityTooLarge {
		w.Header().Set("Connection", "close") // more is coming than drainBody waits for
	}
	if status >= http.StatusBadRequest && !w.body.ended.Load() {
		// net/http reads the rest of the body before it answers, to reuse the connection: limit that.
		w.control.SetReadDeadline(time.Now().Add(w.linger))
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.startWriteTime()
	defer w.endWriteTime()
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// FlushError implements an interface that http.ResponseController looks for.
func (w *response) FlushError() error {
	w.startWriteTime()
	defer w.endWriteTime()
	return w.control.Flush()
}

// How many bytes of a refused body are read: leastHeard of anyone's, and patience times the body limit of an admitted client.
const (
	leastHeard = 16 << 20
	patience   = 4
)

// drainBody reads and discards the rest of a refused body. Many clients read no answer before they have sent everything; if the
// connection were closed then, they would never see the reason.
func (w *response) drainBody() {
	if w.status < http.StatusBadRequest || w.body.ended.Load() || w.FlushError() != nil {
		return
	}
	piece := make([]byte, 32<<10)
	until := time.Now().Add(10 * w.linger)
	for left := max(w.drainLimit, leastHeard); left > 0 && !w.body.ended.Load(); {
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

// startWriteTime sets the deadline for a write to the client. endWriteTime removes it afterwards: in HTTP/2 a deadline ends the stream
// even when nothing is being written, such as before the next token.
func (w *response) startWriteTime() { w.control.SetWriteDeadline(time.Now().Add(w.stall)) }
func (w *response) endWriteTime()   { w.control.SetWriteDeadline(time.Time{}) }

// setBodyTime sets the time for the rest of the body, from now on; 0: no limit, as while the request waits for a slot. After the whole
// body was read it does nothing: net/http then reads to notice a disconnect, and a deadline would end the request.
func (w *response) setBodyTime(within time.Duration) {
	if w.body.ended.Load() {
		return
	}
	deadline := time.Time{}
	if within > 0 {
		deadline = time.Now().Add(within)
	}
	w.control.SetReadDeadline(deadline)
}

// Unwrap implements an interface that http.ResponseController looks for.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// incoming is a request's body that records whether all of it was read.
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

// logged is a body that is logged once it was read.
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
