//go:build linux && (amd64 || arm64)

package sandbox

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

// What the kernel tells about a process from outside. A process that has ended has 0 of everything.

// onlyChild is the one child of a process that has but one thread.
func onlyChild(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil { // not every kernel keeps that list
		if all := childrenOf(pid); len(all) > 0 {
			return all[0]
		}
		return 0
	}
	child, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return child
}

// childrenOf are the processes that a process is the parent of, those included that nobody has waited
// for, found by looking at every process of the machine.
func childrenOf(pid int) []int {
	var found []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue
		}
		// "pid (name) state parent ..."; a name may hold anything
		rest := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(rest) > 1 && rest[1] == strconv.Itoa(pid) {
			found = append(found, child)
		}
	}
	return found
}

// processCPU is the processor time of all threads of a process, to the nanosecond.
func processCPU(pid int) time.Duration {
	if pid == 0 {
		return 0
	}
	var t unix.Timespec
	// The clock of another process is named by its id: the complement shifted by three, with 2 for the
	// scheduler's own count.
	if err := unix.ClockGettime(int32(^pid)<<3|2, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// residentMemory is what a process holds of physical memory.
func residentMemory(pid int) int64 {
	pages := procField(pid, "statm", 1)
	return pages * int64(os.Getpagesize())
}

// waitedForProcessor is how long the first thread of a process stood ready while others ran.
func waitedForProcessor(pid int) time.Duration { return time.Duration(procField(pid, "schedstat", 1)) }

func procField(pid int, file string, i int) int64 {
	if pid == 0 {
		return 0
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
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
