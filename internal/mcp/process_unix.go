//go:build unix

package mcp

import (
	"os/exec"
	"syscall"
)

// apart gives a command a group of its own, so that an interrupt is not its, and what it has started ends with it.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// kill ends a command and what it has started.
func kill(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
