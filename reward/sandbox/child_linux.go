package sandbox

import "syscall"

// childAttributes makes a child the leader of its own process group, and has the kernel kill it when the thread that started it ends.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
