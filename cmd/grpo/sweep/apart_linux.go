package sweep

import "syscall"

// childAttributes makes a child end with its parent, and keeps the terminal's keys from it, so the parent forwards interruptions.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
