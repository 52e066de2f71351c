package procgroup

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// keeperName is the keeper's name in a list of processes. It is this binary, run between this process and the command. The kernel
// signals the end of a parent only to its own children, so the keeper kills the command's children, too.
const keeperName = "grpo-keeper"

// parentDied is the signal that the kernel sends the keeper when its parent ends.
const parentDied = syscall.SIGUSR1

// self is this binary, even if the file at its path was replaced.
const self = "/proc/self/exe"

// mayExecute is X_OK of access(2).
const mayExecute = 1

func init() {
	if len(os.Args) < 4 || os.Args[0] != keeperName {
		return
	}
	if parent, err := strconv.Atoi(os.Args[1]); err == nil {
		os.Exit(guard(parent, os.Args[2], os.Args[3:]))
	}
}

// keep puts a keeper before a command, if that can be executed; otherwise starting it fails as it should.
func keep(cmd *exec.Cmd) {
	path := cmd.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(cmd.Dir, path)
	}
	for _, file := range []string{self, path} {
		if err := syscall.Access(file, mayExecute); err != nil || cmd.Err != nil {
			return
		}
	}
	cmd.SysProcAttr.Pdeathsig = parentDied
	cmd.Args = append([]string{keeperName, strconv.Itoa(os.Getpid()), cmd.Path}, cmd.Args...)
	cmd.Path = self
}

// guard runs a command and exits as it does, killing whatever it left. It does the same when the parent ends.
func guard(parent int, path string, args []string) int {
	runtime.LockOSThread() // the parent-death signal is per thread; this is the main thread, which lives as long as the process
	const setChildSubreaper = 36
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0) // orphaned descendants become children of this process
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, parentDied, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	if os.Getppid() != parent {
		return 1
	}
	command, err := syscall.ForkExec(path, args, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2},
		Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}})
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s cannot be started: %v\n", path, err)
		return 127
	}
	for _, f := range []*os.File{os.Stdin, os.Stdout} {
		f.Close() // only the command should hold these files
	}
	go forwardSignals(signals, parent, command)
	return reap(command)
}

// forwardSignals forwards signals to the command, and kills everything when the parent has ended. The signal of that also comes when just a
// thread of the parent ends, so it checks.
func forwardSignals(signals <-chan os.Signal, parent, command int) {
	for s := range signals {
		if s != parentDied {
			_ = syscall.Kill(command, s.(syscall.Signal))
			continue
		}
		for os.Getppid() != parent { // until reap finds no more children
			killChildren()
			time.Sleep(time.Millisecond)
		}
	}
}

// reap waits for the command, and for orphans that became children, until there are none.
func reap(command int) (code int) {
	over := false
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return code
		case pid == command:
			over, code = true, status.ExitStatus()
			if status.Signaled() {
				code = 128 + int(status.Signal())
			}
		}
		if over {
			killChildren()
		}
	}
}

// killChildren kills the children of this process; their own children then become its children.
func killChildren() {
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	for _, p := range processes {
		pid, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + p.Name() + "/stat")
		if err != nil {
			continue
		}
		// "pid (name) state parent …", where name may contain anything
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) > 1 && string(fields[1]) == strconv.Itoa(os.Getpid()) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
