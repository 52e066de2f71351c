package sandbox

import "syscall"

// tied is a group of its own, whose first process the kernel ends with the thread that started it.
func tied() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
