package memory

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// rooms are the remaining memory of each limit.
func rooms() []Room {
	return append(system("/").rooms(), limits(syscall.Getrlimit, "/proc/self/status")...)
}

// system is the root directory of /proc and /sys, for tests.
type system string

func (s system) rooms() (all []Room) {
	if free, ok := value(s.read("proc/meminfo"), "MemAvailable:"); ok {
		all = append(all, Room{Bytes: free << 10, Limit: "the machine's memory"})
	}
	for line := range strings.Lines(s.read("proc/self/cgroup")) {
		// "4:memory:/path" for cgroup version 1, "0::/path" for version 2
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch controllers := strings.Split(parts[1], ","); {
		case parts[1] == "":
			all = append(all, s.groups("sys/fs/cgroup", parts[2], version2)...)
			all = append(all, s.groups("sys/fs/cgroup/unified", parts[2], version2)...)
		case slices.Contains(controllers, "memory"):
			all = append(all, s.groups("sys/fs/cgroup/memory", parts[2], version1)...)
		}
	}
	return all
}

// groupFiles are the names of a control group's files about memory.
type groupFiles struct {
	limits      []string
	usage, idle string // idle is the key in memory.stat for page cache that was not used lately
}

var (
	version1 = groupFiles{[]string{"memory.limit_in_bytes"}, "memory.usage_in_bytes", "total_inactive_file"}
	version2 = groupFiles{[]string{"memory.max", "memory.high"}, "memory.current", "inactive_file"}
)

// groups are the remaining memory of a control group and its parents. In a container, the path may only be valid outside:
// then the mount itself is the group.
func (s system) groups(mount, path string, f groupFiles) (all []Room) {
	for at := filepath.Join("/", path); ; at = filepath.Dir(at) {
		dir := filepath.Join(mount, at)
		used, err := strconv.ParseInt(strings.TrimSpace(s.read(dir, f.usage)), 10, 64)
		idle, _ := value(s.read(dir, "memory.stat"), f.idle)
		for _, name := range f.limits {
			limit, lerr := strconv.ParseInt(strings.TrimSpace(s.read(dir, name)), 10, 64) // an error for "max", which is no limit
			if err == nil && lerr == nil {
				all = append(all, Room{Bytes: limit - used + idle, Limit: fmt.Sprintf("the %s that its control group may have", GB(limit))})
			}
		}
		if at == "/" {
			return all
		}
	}
}

// read returns the content of a file, "" on an error.
func (s system) read(path ...string) string {
	text, _ := os.ReadFile(filepath.Join(append([]string{string(s)}, path...)...))
	return string(text)
}

// value is the number after a key at the beginning of a line.
func value(text, key string) (int64, bool) {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == key {
			n, err := strconv.ParseInt(f[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// limits are what the process limits leave: ulimit -v and -d.
func limits(get func(int, *syscall.Rlimit) error, status string) (all []Room) {
	text, _ := os.ReadFile(status)
	for _, l := range []struct {
		resource   int
		used, name string
		mapped     bool
	}{
		{syscall.RLIMIT_AS, "VmSize:", "address space (ulimit -v)", true},
		{syscall.RLIMIT_DATA, "VmData:", "data (ulimit -d)", false},
	} {
		var r syscall.Rlimit
		used, ok := value(string(text), l.used)
		if err := get(l.resource, &r); err != nil || !ok || r.Cur > 1<<62 { // no limit
			continue
		}
		all = append(all, Room{Bytes: int64(r.Cur) - used<<10, Limit: fmt.Sprintf("the %s of %s", GB(int64(r.Cur)), l.name), Mapped: l.mapped})
	}
	return all
}
