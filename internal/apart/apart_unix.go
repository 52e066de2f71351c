//go:build unix

package apart

import (
	"os/exec"
	"syscall"
)

// Set gives a command that is to be started a group of its own, and on Linux a keeper.
func Set(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	keep(cmd)
}

// Kill ends a command and what it has started.
func Kill(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
