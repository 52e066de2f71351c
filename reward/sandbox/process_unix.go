//go:build unix

package sandbox

import (
	"os"
	"os/exec"
	"syscall"
)

// platformEnv is what a program needs of the environment to start at all.
func platformEnv() []string { return nil }

// ownGroup puts the command into a process group of its own, and gives back how to kill it and all of its group but
// those that have left that.
func ownGroup(cmd *exec.Cmd) (kill func() error) {
	cmd.SysProcAttr = tied()
	return func() error {
		if cmd.Process == nil {
			return nil
		}
		_ = cmd.Process.Kill() // it may have left the group itself
		return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
}

// ended tells how a process ended.
func ended(s *os.ProcessState) (code, signal int) {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 0, int(w.Signal())
	}
	return s.ExitCode(), 0
}
