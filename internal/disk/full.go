package disk

import (
	"errors"
	"syscall"
)

// Full tells whether something was not written for want of room: on the disk, or in the user's share of it.
func Full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// Remedy is what to do about something that was not written, before it is tried again.
func Remedy(err error) string {
	if Full(err) {
		return "make room there"
	}
	if errors.Is(err, syscall.EFBIG) {
		return "let files be larger (ulimit -f)"
	}
	return "mend that"
}
