package sweep

import "syscall"

// apart makes a child end with its parent, and keeps the terminal's keys from it, so the parent forwards interruptions.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
