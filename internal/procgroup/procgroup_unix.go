//go:build unix

package procgroup

import (
	"os/exec"
	"syscall"
)

// Set gives a command its own process group, and on Linux a keeper. Call it before the command starts.
func Set(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	keep(cmd)
}

// Kill kills a command and the processes that it started.
func Kill(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
