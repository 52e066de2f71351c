//go:build unix && !linux

package sandbox

import "syscall"

// tied is a group of its own. It outlives a process that is killed.
func tied() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
