//go:build linux && (amd64 || arm64)

package proc

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// OnlyChild is the child of a process with one thread and at most one child.
func OnlyChild(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil { // this kernel may be built without that list
		if all := Children(pid); len(all) > 0 {
			return all[0]
		}
		return 0
	}
	child, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return child
}

// Children are the children of a process, zombies included. It looks at every process of the machine.
func Children(pid int) []int {
	var found []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if child, err := strconv.Atoi(e.Name()); err == nil && Parent(child) == pid {
			found = append(found, child)
		}
	}
	return found
}

// Parent is the parent of a process, 0 where that is hidden from us.
func Parent(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	// "pid (name) state parent ..."; a name may contain anything, parentheses too
	rest := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if err != nil || len(rest) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(rest[1])
	return parent
}

// CPU is the processor time of all threads of a process, to the nanosecond.
func CPU(pid int) time.Duration {
	if pid == 0 {
		return 0
	}
	var t unix.Timespec
	// The CPU clock of another process: the complement of its id, shifted by three, and 2 for the scheduler's
	// count (CPUCLOCK_SCHED).
	if err := unix.ClockGettime(int32(^pid)<<3|2, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// Memory is the resident memory of a process in bytes.
func Memory(pid int) int64 {
	pages := procField(fmt.Sprintf("/proc/%d/statm", pid), 1)
	if pages == 0 { // the main thread may have ended before others
		all, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/statm", pid))
		for _, file := range all {
			pages = max(pages, procField(file, 1))
		}
	}
	return pages * int64(os.Getpagesize())
}

// ThreadsOf summarises the state of all threads of a process.
func ThreadsOf(pid int) (t Threads) {
	if pid == 0 {
		return t
	}
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, task := range tasks {
		dir := fmt.Sprintf("/proc/%d/task/%s/", pid, task.Name())
		stat, err := os.ReadFile(dir + "stat")
		after := stat[bytes.LastIndexByte(stat, ')')+1:] // " state parent ..."
		if err != nil || len(after) < 2 || after[1] == 'Z' || after[1] == 'X' {
			continue
		}
		t.Alive = true
		t.Runnable = t.Runnable || after[1] == 'R'
		t.Waited = max(t.Waited, time.Duration(procField(dir+"schedstat", 1)))
	}
	return t
}

// procField is the i-th number of a file, 0 if there is none.
func procField(path string, i int) int64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) <= i {
		return 0
	}
	n, _ := strconv.ParseInt(fields[i], 10, 64)
	return n
}
