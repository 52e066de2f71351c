//go:build unix

package apart

import (
	"os/exec"
	"syscall"
)

// Set gives a command that is to be started a group of its own.
func Set(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// Kill ends a command and what it has started.
func Kill(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
