package sweep

import "syscall"

// apart makes a child end with its parent, and gives it a process group of its own: keys of the terminal do not reach it, so the parent
// forwards interruptions.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
