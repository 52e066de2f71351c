//go:build !unix

package procgroup

import "os/exec"

// Set does nothing here.
func Set(*exec.Cmd) {}

// Kill ends a command.
func Kill(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
