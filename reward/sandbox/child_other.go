//go:build unix && !linux

package sandbox

import "syscall"

// tied makes a process the leader of its own group. If this process is killed, the other one goes on.
func tied() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
