//go:build unix

package sandbox

import (
	"os"
	"os/exec"
	"syscall"
)

// platformEnv is what the platform requires in the environment of every process.
func platformEnv() []string { return nil }

// ownGroup puts the command into a process group of its own, and returns a function that kills the command and what is
// still in its group.
func ownGroup(cmd *exec.Cmd) (kill func() error) {
	cmd.SysProcAttr = childAttributes()
	return func() error {
		if cmd.Process == nil {
			return nil
		}
		_ = cmd.Process.Kill() // the command itself may have left the group
		return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
}

// exitStatus returns the exit code of a process, or the signal that ended it.
func exitStatus(s *os.ProcessState) (code, signal int) {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 0, int(w.Signal())
	}
	return s.ExitCode(), 0
}
