//go:build unix && !linux

package sandbox

import "syscall"

// childAttributes makes a child the leader of its own process group. It goes on if this process is killed.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
