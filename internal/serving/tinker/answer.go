package tinker

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strconv"

	"github.com/klauspost/compress/zstd"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/disk"
	"github.com/seed-7879b91d/grpo/internal/serving/body"
	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/wire"
)

// status is an error with an HTTP status.
type status struct {
	code int
	err  error
}

func (e *status) Error() string { return e.err.Error() }
func (e *status) Unwrap() error { return e.err }

func notFound(err error) error { return &status{http.StatusNotFound, err} }

// answered makes a handler of a call whose result is sent as JSON; nil is sent as an empty object.
func (s *Server) answered(call func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := call(r)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		if c, ok := v.(closing); ok { // see config
			w.Header().Set("Connection", "close")
			v = c.v
		}
		if v == nil {
			v = struct{}{}
		}
		writeJSON(w, http.StatusOK, v)
	}
}

// codeOf is the HTTP status of an error. Clients retry some; errors that a retry cannot fix have another.
func codeOf(err error) int {
	var s *status
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &s):
		return s.code
	case errors.As(err, &large):
		return http.StatusRequestEntityTooLarge
	case disk.IsFull(err):
		return http.StatusTooManyRequests // of the statuses that clients retry, the one with the longest pause
	case errors.Is(err, fs.ErrNotExist):
		return http.StatusNotFound
	case badinput.Is(err):
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

// fail answers with an error. Internal errors are logged, and not shown to the client.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	code, text := codeOf(err), s.clientError(err)
	if code == http.StatusRequestEntityTooLarge {
		text = refusal.FromError(err).Message
	}
	if full := disk.IsFull(err); full || code >= http.StatusInternalServerError {
		s.Log.Error("not answered", "id", r.Header.Get("X-Request-Id"), "why", err.Error())
		if text = internalError; full {
			text = refusal.DiskFull
		}
	}
	refuse(w, code, errors.New(text))
}

func refuse(w http.ResponseWriter, code int, err error) {
	if code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
		w.Header().Set("Connection", "close") // returns the connection to a client that has too many open
	}
	writeJSON(w, code, map[string]string{"error": err.Error()})
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		code, text = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be written"}`)
	}
	write(w, code, "application/json", text)
}

func write(w http.ResponseWriter, code int, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body))) // clients take an error without one for a proxy's
	w.WriteHeader(code)
	_, _ = w.Write(body) // a client that has disconnected polls again
}

// bodyOf reads the body of a request of at most most bytes, decompressed if necessary. It counts towards the sender's account
// until done is called, after parsing.
func (s *Server) bodyOf(r *http.Request, most int64) (text []byte, done func(), err error) {
	most = min(most, s.MaxBody)
	room, err := s.account(s.who(r)).read(r, most)
	if err != nil {
		return nil, nil, err
	}
	if text, err = readBody(r, most); err != nil {
		room.is(0)
		return nil, nil, err
	}
	room.is(len(text))
	return text, func() { room.is(0) }, nil
}

// readBody reads a body, decompressing it.
func readBody(r *http.Request, most int64) ([]byte, error) {
	in := http.MaxBytesReader(nil, r.Body, most)
	var from io.Reader = in
	switch packing := r.Header.Get("Content-Encoding"); packing {
	case "", "identity":
	case "zstd":
		dec, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(1<<30))
		if err != nil {
			return nil, err
		}
		defer dec.Close()
		from = io.LimitReader(dec, most+1)
	default:
		return nil, &status{http.StatusUnsupportedMediaType, badinput.Errorf("Content-Encoding: found %.40q, expected zstd or none", packing)}
	}
	text, err := body.ReadAll(from)
	if err == nil && int64(len(text)) > most {
		err = &http.MaxBytesError{Limit: most}
	}
	return text, unread(err)
}

// unread is the error of a body that could not be read.
func unread(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &status{http.StatusRequestTimeout, badinput.Errorf("body: it did not come in time; send it faster, or in smaller parts")}
	case err != nil && codeOf(err) != http.StatusRequestEntityTooLarge:
		return badinput.Errorf("body: %w", err)
	}
	return err
}

// read parses a JSON body into v.
func (s *Server) read(r *http.Request, v any) error {
	body, done, err := s.bodyOf(r, small)
	if err != nil {
		return err
	}
	defer done()
	return wire.Read(body, v)
}
