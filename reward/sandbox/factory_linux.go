//go:build linux && (amd64 || arm64)

package sandbox

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-7879b91d/grpo/reward/internal/program"
	"github.com/seed-7879b91d/grpo/reward/sandbox/internal/jail"
	"github.com/seed-7879b91d/grpo/reward/sandbox/internal/proc"
	"github.com/seed-7879b91d/grpo/reward/sandbox/internal/scratch"
)

//go:embed zygote.py
var zygoteSource string

// maxThreads is how many threads a test may start, besides its first one and the zygote's.
const maxThreads = 64

// cells makes the cells of one rung.
type cells struct {
	rung           Rung
	source, config int           // memory files that every cell inherits
	ownUser        bool          // every cell runs as a user of its own
	groups         *memoryGroups // nil below RungFull
	room           *scratch.Root // nil from RungNamespaces on

	mu         sync.Mutex
	supervisor *jail.Supervisor // nil before the first cell, and after a failure until the next cell
}

// processLimitAdvice names the limit that allows too few processes and says how to raise it; "" if none does.
func processLimitAdvice() string { return jail.ProcessLimit() }

// newWorkerFactory prepares a rung. Whether the machine supports the rung turns out only when a cell is made.
func newWorkerFactory(rung Rung, py *interpreter, preload string) (workerFactory, error) {
	if rung == RungUnsafe {
		room, err := scratch.NewRoot() // if this process is killed, a later one removes it
		if err != nil {
			return nil, fmt.Errorf("no scratch directory: %w", err)
		}
		return newProcesses(py, preload, room.Dir, room.Close)
	}
	if !py.CTypes {
		return nil, errors.New("the interpreter has no ctypes, which installs the system call filter of a test")
	}
	if rung == RungUID && os.Geteuid() != 0 {
		return nil, errors.New("only root can run every cell as a user of its own")
	}
	if low := jail.LowLimit(0, 0, 0); low != "" {
		return nil, &lowLimit{low}
	}
	c := &cells{rung: rung, source: -1, config: -1, ownUser: os.Geteuid() == 0 && rung != RungLandlock}
	var err error
	if rung == RungFull {
		if c.groups, err = findMemoryGroups(); err != nil {
			return nil, fmt.Errorf("cannot create a control group: %w", err)
		}
	}
	if rung < RungNamespaces {
		if c.room, err = scratch.NewRoot(); err != nil {
			return nil, fmt.Errorf("no scratch directory: %w", err)
		}
	}
	if c.source, err = zygoteFile(rung, py, preload); err != nil {
		c.close()
		return nil, err
	}
	if c.config, err = c.configFile(rung, py); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// zygoteFile makes the memory file with the Python source of a cell and its configuration.
func zygoteFile(rung Rung, py *interpreter, preload string) (int, error) {
	filter, pids := jail.TestFilter()
	text, err := json.Marshal(map[string]any{
		"source": program.Source + zygoteSource, "preload": preload, "path": py.Path, "filter": filter, "pids": pids,
		"alone": rung >= RungNamespaces,
	})
	if err != nil {
		return -1, err
	}
	return memoryFile("source", text)
}

func (c *cells) configFile(rung Rung, py *interpreter) (int, error) {
	config := jail.Config{
		Namespaces: rung >= RungNamespaces, OwnUser: c.ownUser,
		Exe: py.Exe, Args: py.command(jail.SourceFD), Env: program.Environment,
		ScratchBytes: scratch.Bytes, ScratchFiles: scratch.Files,
	}
	config.Readable, config.Links = py.visibleFiles()
	if rung != RungLandlock {
		config.Processes = maxThreads + 2
	}
	text, err := json.Marshal(config)
	if err != nil {
		return -1, err
	}
	return memoryFile("config", text)
}

// open makes a cell and waits until it is ready.
func (c *cells) open(ctx context.Context, slot int) (worker, error) {
	w, err := c.start(slot)
	if err != nil {
		return nil, err
	}
	if err := w.awaitReady(ctx); err != nil {
		w.close()
		return nil, fmt.Errorf("start a cell: %w", err)
	}
	w.hidden = proc.Parent(w.pid) == 0 && !pollOne(w.pidfd, time.Now())
	if w.hidden && c.rung != RungLandlock { // on RungLandlock tests have our user and namespace, so /proc shows them to us
		w.close()
		return nil, errors.New("/proc shows nothing of a cell: mounted with hidepid it hides processes of other users")
	}
	return w, nil
}

func (c *cells) start(slot int) (*cell, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("start a cell: %w", err)
	}
	defer unix.Close(pair[1])
	var complaints [2]int
	if err := unix.Pipe2(complaints[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		unix.Close(pair[0])
		return nil, fmt.Errorf("start a cell: %w", err)
	}
	defer unix.Close(complaints[1])
	w := &cell{control: pair[0], stderr: complaints[0], pidfd: -1}
	user := ownUser(slot)
	if c.room != nil {
		if w.scratch, err = c.room.Make(user, c.ownUser); err != nil {
			w.close()
			return nil, fmt.Errorf("scratch directory: %w", err)
		}
	}
	if w.pid, w.pidfd, err = c.startProcess(user, w.scratch, pair[1], complaints[1]); err != nil {
		w.close()
		return nil, err
	}
	if c.groups != nil {
		if err := c.enterGroup(w); err != nil {
			w.close()
			return nil, fmt.Errorf("control group: %w", err)
		}
	}
	return w, nil
}

// enterGroup puts a cell into a memory group of its own, before its first test.
func (c *cells) enterGroup(w *cell) (err error) {
	if w.group, err = c.groups.make(""); err != nil {
		return err
	}
	return w.group.add(w.pid)
}

// startProcess has the supervisor start the process of a cell. It replaces a supervisor that has failed, whose
// cells have died with it; the runs on them are retried.
func (c *cells) startProcess(user int, scratch string, control, stderr int) (pid, pidfd int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range 2 {
		if c.supervisor == nil {
			if c.supervisor, err = jail.StartSupervisor(); err != nil {
				c.supervisor = nil
				return 0, -1, err
			}
		}
		pid, pidfd, err = c.supervisor.StartCell(user, scratch, control, c.source, c.config, stderr)
		if !errors.Is(err, jail.ErrLost) {
			return pid, pidfd, err
		}
		c.supervisor.Close()
		c.supervisor = nil
	}
	return 0, -1, err
}

// ownUser is the user id of a slot's cells, which no other process should have. So it depends on our process id and, as processes in other
// containers may have the same one, on our PID namespace. If that id is not mapped in our user namespace, it is one from 64000 on.
func ownUser(slot int) int {
	const first, last = 0x70000000, 0x7fffffff
	our := os.Getpid()
	if container, err := os.Stat("/proc/self/ns/pid"); err == nil {
		our += int(uint16(container.Sys().(*syscall.Stat_t).Ino * 40503)) // a hash: inode numbers of namespaces are close together
	}
	if id := first + our%(1<<16)<<8 + slot; id <= last && userExists(id) {
		return id
	}
	return 64000 + (our+slot)%1000
}

// userExists tells whether an id is mapped in the user namespace of this process.
func userExists(id int) bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(text)) {
		var inside, outside, count int
		if _, err := fmt.Sscan(line, &inside, &outside, &count); err == nil && id >= inside && id-inside < count {
			return true
		}
	}
	return false
}

func (c *cells) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.supervisor != nil {
		c.supervisor.Close()
		c.supervisor = nil
	}
	for _, fd := range []*int{&c.source, &c.config} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
	if c.room != nil {
		c.room.Close()
		c.room = nil
	}
}
