package disk

import (
	"errors"
	"syscall"
)

// IsFull reports whether a write failed because the disk, or the user's quota, is full.
func IsFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// Remedy is what to do about a write error before trying again.
func Remedy(err error) string {
	if IsFull(err) {
		return "make room there"
	}
	if errors.Is(err, syscall.EFBIG) {
		return "let files be larger (ulimit -f)"
	}
	return "fix that"
}
