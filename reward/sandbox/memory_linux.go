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

// memoryGroup is a control group that bounds the memory of one cell. Unlike any other limit it counts
// what a program writes to memory files, too.
type memoryGroup struct {
	dir   string
	names *groupNames
	limit int64 // the value last written
}

// groupNames are the file names of a version of control groups.
type groupNames struct {
	limit, swap string
	// swapToo means that the file swap limits memory and swap together.
	swapToo     bool
	kills, word string // the file that counts processes killed for want of memory, and the beginning of its line
}

var (
	version1 = groupNames{limit: "memory.limit_in_bytes", swap: "memory.memsw.limit_in_bytes", swapToo: true,
		kills: "memory.oom_control", word: "oom_kill "}
	version2 = groupNames{limit: "memory.max", swap: "memory.swap.max", kills: "memory.events", word: "oom_kill "}
)

// groupPrefix begins the name of every control group that we make; the process id follows.
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

// make makes a control group for one cell. Its name is unique even if another container has a process with our id.
func (m *memoryGroups) make(name string) (*memoryGroup, error) {
	dir, err := os.MkdirTemp(m.parent, fmt.Sprintf("%s%d-%s", groupPrefix, os.Getpid(), name))
	if err != nil {
		return nil, err
	}
	return &memoryGroup{dir: dir, names: m.names}, nil
}

// sweep removes the groups that killed processes have left.
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

// kills is how many processes of the group the kernel has killed for exceeding its limit.
func (g *memoryGroup) kills() (int, error) {
	text, err := os.ReadFile(filepath.Join(g.dir, g.names.kills))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte(g.names.word)); ok {
			return strconv.Atoi(string(bytes.TrimSpace(rest)))
		}
	}
	return 0, fmt.Errorf("%s/%s has no line %q", g.dir, g.names.kills, g.names.word)
}

// remove removes the group. Its processes are gone, but the kernel may take a moment to notice.
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
