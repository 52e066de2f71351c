//go:build !unix

package mcp

import "os/exec"

func apart(*exec.Cmd) {}

// kill ends a command.
func kill(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
