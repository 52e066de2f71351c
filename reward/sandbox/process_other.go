//go:build !unix

package sandbox

import (
	"os"
	"os/exec"
)

// platformEnv is what a program needs of the environment to start at all.
func platformEnv() []string { return []string{"SYSTEMROOT=" + os.Getenv("SYSTEMROOT")} }

// ownGroup would give the command a group of its own; here only the command itself can be killed.
func ownGroup(cmd *exec.Cmd) (kill func() error) {
	return func() error {
		if cmd.Process == nil {
			return nil
		}
		return cmd.Process.Kill()
	}
}

// ended tells how a process ended.
func ended(s *os.ProcessState) (code, signal int) { return s.ExitCode(), 0 }
