//go:build !unix

package sandbox

import (
	"os"
	"os/exec"
)

// platformEnv is what the platform requires in the environment of every process.
func platformEnv() []string { return []string{"SYSTEMROOT=" + os.Getenv("SYSTEMROOT")} }

// ownGroup returns a function that kills the command. There are no process groups here: its children go on.
func ownGroup(cmd *exec.Cmd) (kill func() error) {
	return func() error {
		if cmd.Process == nil {
			return nil
		}
		return cmd.Process.Kill()
	}
}

// ended returns the exit code of a process.
func ended(s *os.ProcessState) (code, signal int) { return s.ExitCode(), 0 }
