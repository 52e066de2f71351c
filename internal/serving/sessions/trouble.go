package sessions

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/learning"
	"github.com/seed-7879b91d/grpo/internal/serving"
	"github.com/seed-7879b91d/grpo/internal/serving/refusal"
)

var errStopping = &refusal.Error{Status: http.StatusServiceUnavailable, Message: "the server is stopping", After: time.Second}

// ended is the error of a session that ended: the server stops, or the session was removed.
func (n *session) ended() error {
	if n.s.ctx.Err() != nil {
		return errStopping
	}
	return unknownSession(n.ID)
}

// failed reports whether a job has ended with an error.
func (j *job) failed() bool {
	select {
	case <-j.over:
		return j.err != nil
	default:
		return false
	}
}

// explain gives an error that is the client's fault a status. Others are returned unchanged, all errors about files among them.
func (n *session) explain(err error) error {
	if why := learning.Divergence(err); why != nil {
		return refusal.Field("settings", "%v; the session stays as it was: begin another one with a lower learning_rate", why)
	}
	var known *refusal.Error
	var missing *serving.NotFoundError
	var machine syscall.Errno
	var status int
	switch {
	case errors.As(err, &known) || errors.As(err, &machine):
		return err
	case errors.Is(err, context.Canceled):
		return n.ended()
	case errors.As(err, &missing):
		status = http.StatusNotFound
	case errors.Is(err, serving.ErrFull):
		status = http.StatusConflict
	case badinput.Is(err):
		status = http.StatusBadRequest
	default:
		return err
	}
	text := strings.ReplaceAll(strings.ReplaceAll(err.Error(), n.dir+"/", ""), n.dir, n.ID)
	return refusal.Errorf(status, "%s", strings.ReplaceAll(text, "\n", "; "))
}
