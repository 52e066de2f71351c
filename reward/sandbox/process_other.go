//go:build !unix

package sandbox

import (
	"os"
	"os/exec"
)

// platformEnv is what the platform requires in the environment of every process.
func platformEnv() []string { return []string{"SYSTEMROOT=" + os.Getenv("SYSTEMROOT")} }

// ownGroup returns a function that kills the command but not its children, as there are no process groups here.
func ownGroup(cmd *exec.Cmd) (kill func() error) {
	return func() error {
		if cmd.Process == nil {
			return nil
		}
		return cmd.Process.Kill()
	}
}

// exitStatus returns the exit code of a process.
func exitStatus(s *os.ProcessState) (code, signal int) { return s.ExitCode(), 0 }
