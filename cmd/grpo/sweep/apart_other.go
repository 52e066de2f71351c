//go:build !linux

package sweep

import "syscall"

// apart has a child hear of no key that the parent's terminal is pressed: it is told. It outlives a parent that is killed, and
// whoever goes on is told that another process trains there.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
