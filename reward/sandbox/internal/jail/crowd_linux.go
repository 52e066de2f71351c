//go:build linux && (amd64 || arm64)

package jail

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// processesPerCell is how many processes and threads the supervisor and one cell need to start.
const processesPerCell = 40

// ProcessLimit names the limit that leaves too little room for the processes and threads of a cell; "" if there is enough.
func ProcessLimit() string { return crowded("/") }

func crowded(root string) string {
	read := func(parts ...string) string {
		text, _ := os.ReadFile(filepath.Join(append([]string{root}, parts...)...))
		return strings.TrimSpace(string(text))
	}
	for line := range strings.Lines(read("proc/self/cgroup")) {
		// "4:pids:/path" for version 1, "0::/path" for version 2
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || parts[1] != "" && parts[1] != "pids" {
			continue
		}
		for at := filepath.Join("/", parts[2]); ; at = filepath.Dir(at) {
			dir := filepath.Join("sys/fs/cgroup", parts[1], at)
			most, err := strconv.Atoi(read(dir, "pids.max")) // not a number but "max" if there is no limit
			used, uerr := strconv.Atoi(read(dir, "pids.current"))
			if err == nil && uerr == nil && most-used < processesPerCell {
				return fmt.Sprintf("the control group of this process may have %d processes and threads (pids.max), and has %d; raise the limit "+
					"by %d or more where it is set (--pids-limit of a container, TasksMax of a service)", most, used, processesPerCell)
			}
			if at == "/" {
				break
			}
		}
	}
	var may unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NPROC, nil, &may); err != nil || os.Geteuid() == 0 || may.Cur >= 1<<31 {
		return "" // the limit does not apply to root
	}
	if used := threads(filepath.Join(root, "proc"), os.Getuid()); int(may.Cur)-used < processesPerCell {
		return fmt.Sprintf("this user may have %d processes and threads (ulimit -u), and has %d; type ulimit -u %d, or raise the limit "+
			"where it is set", may.Cur, used, used+2*processesPerCell)
	}
	return ""
}

// threads counts the threads of all processes of a user.
func threads(proc string, user int) (n int) {
	all, _ := filepath.Glob(filepath.Join(proc, "[0-9]*", "status"))
	for _, file := range all {
		text, _ := os.ReadFile(file)
		of, count := -1, 0
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 1 && f[0] == "Uid:" {
				of, _ = strconv.Atoi(f[1])
			} else if len(f) > 1 && f[0] == "Threads:" {
				count, _ = strconv.Atoi(f[1])
			}
		}
		if of == user {
			n += count
		}
	}
	return n
}
