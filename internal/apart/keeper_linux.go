package apart

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

// keeperName is what a list of processes calls the keeper: this binary once more, between this process and the command. The kernel tells
// a child alone that its parent has ended, and not what the child has started; the keeper ends that, too.
const keeperName = "grpo-keeper"

// orphaned is the signal that the kernel sends the keeper when what started it ends.
const orphaned = syscall.SIGUSR1

// self is this binary, also where another lies at its path by now.
const self = "/proc/self/exe"

// mayExecute is what access(2) is asked for.
const mayExecute = 1

func init() {
	if len(os.Args) < 4 || os.Args[0] != keeperName {
		return
	}
	if parent, err := strconv.Atoi(os.Args[1]); err == nil {
		os.Exit(guard(parent, os.Args[2], os.Args[3:]))
	}
}

// keep puts a keeper before a command that can be started; one that cannot fails at its start.
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
	cmd.SysProcAttr.Pdeathsig = orphaned
	cmd.Args = append([]string{keeperName, strconv.Itoa(os.Getpid()), cmd.Path}, cmd.Args...)
	cmd.Path = self
}

// guard runs a command and ends as it does. Whatever is left of it then, or when the parent ends, is ended first.
func guard(parent int, path string, args []string) int {
	runtime.LockOSThread() // the command ends with this thread, which is the first and lives as long as the process
	const setChildSubreaper = 36
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0) // what loses its parent becomes a child of this process
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, orphaned, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
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
		f.Close() // whose ends are the command's alone
	}
	go heed(signals, parent, command)
	return reap(command)
}

// heed passes on what the command is to hear, and ends all when the parent has ended. The signal of that also comes when only a thread of
// the parent has.
func heed(signals <-chan os.Signal, parent, command int) {
	for s := range signals {
		if s != orphaned {
			_ = syscall.Kill(command, s.(syscall.Signal))
			continue
		}
		for os.Getppid() != parent { // until reap finds nobody
			killChildren()
			time.Sleep(time.Millisecond)
		}
	}
}

// reap waits for the command, and for whatever became a child by the end of its parent, until there is none.
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

// killChildren ends the children of this process. Theirs are its children then.
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
		// "pid (name) state parent …", and a name may hold anything
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) > 1 && string(fields[1]) == strconv.Itoa(os.Getpid()) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
