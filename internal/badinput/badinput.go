// Package badinput marks the errors that the user can mend: a file that is damaged, a flag that
// contradicts another, a token id out of range. The command line prints such an error as one line
// and exits with 2; every other error is a failing machine and exits with 1.
package badinput

import (
	"errors"
	"fmt"
)

// Error is an error caused by what the user gave us. Its text names the file, line or key, what was
// found there and what was expected.
type Error struct{ err error }

func (e *Error) Error() string { return e.err.Error() }

// Unwrap gives the cause, so that errors.Is sees through the mark.
func (e *Error) Unwrap() error { return e.err }

// BadInput marks the error for programs that import grpo, and cannot name this type: errors.As finds it as an interface{ BadInput() bool }.
// It is true.
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
