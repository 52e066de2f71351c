// Package badinput marks errors that the user can fix: a damaged file, contradicting flags, a token ID out of range. The
// command line prints such an error in one line and exits with 2; every other error is a failure of the machine, with
// exit code 1.
package badinput

import (
	"errors"
	"fmt"
)

// Error is an error in the user's input. Its text names the file, line or key, what was found there, and what was
// expected.
type Error struct{ err error }

func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the cause, so that errors.Is sees through the mark.
func (e *Error) Unwrap() error { return e.err }

// BadInput returns true. It lets programs that import grpo, and cannot name this type, find the error with errors.As as an interface{
// BadInput() bool }.
func (e *Error) BadInput() bool { return true }

// Errorf formats an input error; %w wraps as in fmt.Errorf.
func Errorf(format string, args ...any) error {
	return &Error{fmt.Errorf(format, args...)}
}

// Is reports whether err, or anything it wraps, is an input error.
func Is(err error) bool {
	var e *Error
	return errors.As(err, &e)
}
