//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// memoryGroup is a control group that bounds the memory of one cell. No other limit also counts what a
// program writes to memory files.
type memoryGroup struct {
	dir   string
	names *groupNames
	limit int64 // the value last written
}

// groupNames are the file names of a version of control groups.
type groupNames struct {
	limit, swap string
	// swapToo says that the file swap limits the sum of memory and swap.
	swapToo            bool
	oomFile, oomPrefix string // the file that counts processes killed for want of memory, and the beginning of its line
}

var (
	version1 = groupNames{limit: "memory.limit_in_bytes", swap: "memory.memsw.limit_in_bytes", swapToo: true,
		oomFile: "memory.oom_control", oomPrefix: "oom_kill "}
	version2 = groupNames{limit: "memory.max", swap: "memory.swap.max", oomFile: "memory.events", oomPrefix: "oom_kill "}
)

// groupPrefix begins the name of every control group of ours; our process id follows, by which sweep knows whose it is.
const groupPrefix = "grpo-cell-"

// memoryGroups is a directory in which control groups with a memory limit can be made.
type memoryGroups struct {
	parent string
	names  *groupNames
}

// findMemoryGroups finds such a directory by trying: first the group of this process, then the root of
// the hierarchy.
func findMemoryGroups() (*memoryGroups, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	var firstErr error
	for line := range strings.Lines(string(text)) {
		// "4:memory:/path" for version 1, "0::/path" for version 2
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for _, candidate := range groupPlaces(parts[1], parts[2]) {
			g, err := candidate.make("probe")
			if err != nil {
				firstErr = cmp.Or(firstErr, err)
				continue
			}
			err = g.setLimit(256 << 20)
			g.remove()
			if err == nil {
				candidate.sweep()
				return candidate, nil
			}
			firstErr = cmp.Or(firstErr, err)
		}
	}
	if firstErr == nil {
		firstErr = errors.New("no control group has a memory controller")
	}
	return nil, firstErr
}

// groupPlaces are the directories to try for one line of /proc/self/cgroup.
func groupPlaces(controllers, path string) []*memoryGroups {
	const mount = "/sys/fs/cgroup"
	var places []*memoryGroups
	if controllers == "" {
		for _, root := range []string{mount, mount + "/unified"} {
			places = append(places, &memoryGroups{filepath.Join(root, path), &version2}, &memoryGroups{root, &version2})
		}
	}
	for controller := range strings.SplitSeq(controllers, ",") {
		if controller == "memory" {
			root := filepath.Join(mount, "memory")
			places = append(places, &memoryGroups{filepath.Join(root, path), &version1}, &memoryGroups{root, &version1})
		}
	}
	return places
}

// make makes a control group for one cell. MkdirTemp makes the name unique, as another container may have a process with our id.
func (m *memoryGroups) make(name string) (*memoryGroup, error) {
	dir, err := os.MkdirTemp(m.parent, fmt.Sprintf("%s%d-%s", groupPrefix, os.Getpid(), name))
	if err != nil {
		return nil, err
	}
	return &memoryGroup{dir: dir, names: m.names}, nil
}

// sweep removes control groups whose process has ended without removing them.
func (m *memoryGroups) sweep() {
	dirs, _ := filepath.Glob(filepath.Join(m.parent, groupPrefix+"*"))
	for _, dir := range dirs {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), groupPrefix), "-")
		if n, err := strconv.Atoi(pid); err == nil && unix.Kill(n, 0) == unix.ESRCH {
			os.Remove(dir)
		}
	}
}

func (g *memoryGroup) write(file, text string) error {
	// Not os.WriteFile, which creates a missing file: this one must be the kernel's.
	f, err := os.OpenFile(filepath.Join(g.dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}

// setLimit bounds the group's memory, and forbids swap where the kernel counts it.
func (g *memoryGroup) setLimit(bytes int64) error {
	if g.limit == bytes {
		return nil
	}
	text := strconv.FormatInt(bytes, 10)
	if !g.names.swapToo {
		if err := g.write(g.names.swap, "0"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := g.write(g.names.limit, text); err != nil {
			return err
		}
		g.limit = bytes
		return nil
	}
	// The limit of memory and swap may never be below that of memory alone, so a higher limit is refused at first.
	err := g.write(g.names.limit, text)
	swapErr := g.write(g.names.swap, text)
	if err != nil {
		err = g.write(g.names.limit, text)
	}
	if err == nil && swapErr != nil && !errors.Is(swapErr, fs.ErrNotExist) {
		err = swapErr
	}
	if err != nil {
		return err
	}
	g.limit = bytes
	return nil
}

func (g *memoryGroup) add(pid int) error { return g.write("cgroup.procs", strconv.Itoa(pid)) }

// oomKills is how many processes of the group the kernel has killed for exceeding its limit.
func (g *memoryGroup) oomKills() (int, error) {
	text, err := os.ReadFile(filepath.Join(g.dir, g.names.oomFile))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte(g.names.oomPrefix)); ok {
			return strconv.Atoi(string(bytes.TrimSpace(rest)))
		}
	}
	return 0, fmt.Errorf("%s/%s has no line %q", g.dir, g.names.oomFile, g.names.oomPrefix)
}

// remove removes the group. It retries, because the group may be busy for a moment after its processes have ended.
func (g *memoryGroup) remove() error {
	var err error
	for wait := time.Millisecond; wait < time.Second; wait *= 2 {
		if err = os.Remove(g.dir); err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		time.Sleep(wait)
	}
	return err
}
