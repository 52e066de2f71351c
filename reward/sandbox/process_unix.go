//go:build unix

package sandbox

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// platformEnv is what a program needs of the environment to start at all.
func platformEnv() []string { return nil }

// ownGroup makes the end of the command the end of its children too, unless they leave its group.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// ended tells how a process ended and how much memory it held at most.
func ended(s *os.ProcessState) (code, signal int, memory int64) {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		signal = int(w.Signal())
	}
	if usage, ok := s.SysUsage().(*syscall.Rusage); ok {
		memory = int64(usage.Maxrss)
		if runtime.GOOS != "darwin" && runtime.GOOS != "ios" {
			memory <<= 10 // the others count in KiB
		}
	}
	return max(s.ExitCode(), 0), signal, memory
}
