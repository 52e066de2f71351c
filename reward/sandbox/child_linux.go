package sandbox

import "syscall"

// tied makes a process the leader of its own group, and has the kernel kill it when the thread that started it ends.
func tied() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
