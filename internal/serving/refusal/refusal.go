// Package refusal is how the servers refuse a request: a status, and a body in the form of OpenAI's errors.
package refusal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/seed-7879b91d/grpo/internal/disk"
)

// Error is a refusal.
type Error struct {
	Status  int
	Message string // one line: the field, what was found, what to send
	Param   string // the field that is wrong; "": none in particular
	Code    string // for programs; "": the status is enough
	After   time.Duration

	text []byte // the body, if it was prepared
}

func (e *Error) Error() string { return e.Message }

// Errorf is a refusal with that status.
func Errorf(status int, format string, args ...any) *Error {
	return &Error{Status: status, Message: fmt.Sprintf(format, args...)}
}

// Field refuses a field of a request.
func Field(name, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Param: name, Message: name + ": " + fmt.Sprintf(format, args...)}
}

// Preencoded encodes the body of an error in advance, for one that is sent often.
func Preencoded(e *Error) *Error {
	e.text = e.JSON()
	return e
}

// Busy asks the client to try again later.
func Busy(after time.Duration, format string, args ...any) *Error {
	return &Error{Status: http.StatusTooManyRequests, Code: "rate_limit_exceeded", After: after, Message: fmt.Sprintf(format, args...)}
}

// ContextError is the refusal of a request whose context ended while it waited: the context's cause if that is a refusal, as on shutdown.
func ContextError(ctx context.Context) error {
	var why *Error
	if errors.As(context.Cause(ctx), &why) {
		return why
	}
	return Errorf(http.StatusServiceUnavailable, "nobody waited for the answer")
}

// DiskFull is the message of all servers when the disk is full.
const DiskFull = "the disk of the store is full; delete checkpoints or sessions, or give it more room"

// BodyError is the refusal of a request whose body could not be read: its client was too slow, sent too much, or disconnected.
func BodyError(err error) error {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return Errorf(http.StatusRequestTimeout, "the body did not come in time; send it faster, or send less")
	}
	return Errorf(http.StatusBadRequest, "the body ended before all of it had come; send it again")
}

// Truncate shortens a text to that many characters, for quoting it.
func Truncate(text string, most int) string {
	n := 0
	for i := range text {
		if n == most {
			return text[:i] + "…"
		}
		n++
	}
	return text
}

// kind is OpenAI's type of an error with that status.
func kind(status int) string {
	switch {
	case status == http.StatusUnauthorized:
		return "authentication_error"
	case status == http.StatusForbidden:
		return "permission_error"
	case status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case status == http.StatusServiceUnavailable:
		return "service_unavailable"
	case status >= 500:
		return "server_error"
	}
	return "invalid_request_error"
}

type body struct {
	Error struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	} `json:"error"`
}

// JSON is the body of the answer.
func (e *Error) JSON() []byte {
	if e.text != nil {
		return slices.Clone(e.text)
	}
	var b body
	b.Error.Message, b.Error.Type = e.Message, kind(e.Status)
	if e.Param != "" {
		b.Error.Param = &e.Param
	}
	if e.Code != "" {
		b.Error.Code = &e.Code
	}
	text, err := json.Marshal(b)
	if err != nil {
		panic(err) // strings can always be encoded
	}
	return text
}

// Write answers with an error. One without a status is a fault of the server.
func Write(w http.ResponseWriter, err error) {
	e := FromError(err)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if e.After > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(e.After.Seconds()))))
	}
	if e.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if e.Status == http.StatusRequestTimeout {
		w.Header().Set("Connection", "close") // the rest of the body may still come
	}
	text := append(e.JSON(), '\n')
	w.Header().Set("Content-Length", strconv.Itoa(len(text))) // also if it is sent before the body was read
	w.WriteHeader(e.Status)
	w.Write(text) // an error means that the client is gone
}

// FromError is the refusal in an error. A full disk is temporary. Any other error is sent without its text, which is only logged.
func FromError(err error) *Error {
	var e *Error
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &e):
		return e
	case errors.As(err, &large):
		return Errorf(http.StatusRequestEntityTooLarge, "the body is larger than the %d bytes that a request may have here", large.Limit)
	case disk.IsFull(err):
		return Busy(time.Minute, DiskFull)
	}
	return Errorf(http.StatusInternalServerError, "the server failed; its log says why")
}
