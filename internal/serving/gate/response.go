package gate

import (
	"io"
	"log/slog"
	"net/http"
	"time"
)

// response notes what is answered. A client that does not read it is cut off.
type response struct {
	http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
	status  int
	bytes   int64
}

func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.control.SetWriteDeadline(time.Now().Add(w.stall)) // where there is no connection there is nobody slow
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// FlushError is what http.ResponseController looks for.
func (w *response) FlushError() error {
	w.control.SetWriteDeadline(time.Now().Add(w.stall))
	return w.control.Flush()
}

// Unwrap is too.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

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
