//go:build !unix

package sandbox

import (
	"os"
	"os/exec"
)

// platformEnv is what a program needs of the environment to start at all.
func platformEnv() []string { return []string{"SYSTEMROOT=" + os.Getenv("SYSTEMROOT")} }

// ownGroup would make the end of the command the end of its children too; here only the command ends.
func ownGroup(cmd *exec.Cmd) { cmd.Cancel = func() error { return cmd.Process.Kill() } }

// ended tells how a process ended.
func ended(s *os.ProcessState) (code, signal int) { return s.ExitCode(), 0 }
