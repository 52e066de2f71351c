//go:build unix

package sandbox

import (
	"os"
	"os/exec"
	"syscall"
)

// platformEnv is what a program needs of the environment to start at all.
func platformEnv() []string { return nil }

// ownGroup makes the end of the command the end of its children too, unless they leave its group.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// ended tells how a process ended.
func ended(s *os.ProcessState) (code, signal int) {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 0, int(w.Signal())
	}
	return s.ExitCode(), 0
}
