package sweep

import "syscall"

// apart has a child end with its parent, whatever ends that, and hear of no key that the parent's terminal is pressed: it is told.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
