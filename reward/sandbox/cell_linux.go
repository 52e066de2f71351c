//go:build linux && (amd64 || arm64)

package sandbox

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-7879b91d/grpo/reward/sandbox/internal/scratch"
)

// cell is one jailed zygote: a Python process with the usual modules imported that forks a fresh
// process for every test. It runs one test at a time.
type cell struct {
	control int // our end of the socket to the zygote
	stderr  int // our end of the pipe that is the zygote's own standard error
	pid     int
	group   *memoryGroup // nil where memory is bounded by watching
	scratch string       // the scratch directory on the host; empty where the cell has its own root
	spent   bool         // not to be reused: a test left something behind, or the cell was killed
	hidden  bool         // /proc is mounted with hidepid, which hides the zygote from us, as it is not dumpable

	mu    sync.Mutex // guards pidfd against use after close
	pidfd int
}

// kill ends the cell and every process in it. It may be called at any time, from any goroutine.
func (c *cell) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pidfd >= 0 {
		unix.PidfdSendSignal(c.pidfd, unix.SIGKILL, nil, 0)
	}
}

// close kills the cell, waits until it is gone and releases its resources.
func (c *cell) close() {
	c.kill()
	// A pidfd becomes readable when its process has died. The init process of a PID namespace dies
	// last.
	if c.pidfd >= 0 {
		pollOne(c.pidfd, time.Now().Add(10*time.Second))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.group != nil {
		c.group.remove()
	}
	if c.scratch != "" {
		scratch.Remove(c.scratch)
	}
	unix.Close(c.control)
	unix.Close(c.stderr)
	if c.pidfd >= 0 {
		unix.Close(c.pidfd)
		c.pidfd = -1
	}
}

func (c *cell) usable() bool { return !c.spent }

// complaint is the reason of a failure that the zygote has written to its standard error.
func (c *cell) complaint() string {
	var t tail
	t.drain(c.stderr)
	return lastWords(t.String())
}

// awaitReady waits for the zygote's first message, which says that it is ready.
func (c *cell) awaitReady(ctx context.Context) error {
	defer context.AfterFunc(ctx, c.kill)()
	if !pollOne(c.control, time.Now().Add(ReadyTimeout)) {
		return fmt.Errorf("a cell was not ready after %v", ReadyTimeout)
	}
	m, err := c.receive()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	if m.kind != 'R' {
		return fmt.Errorf("a cell began with %q", m.kind)
	}
	return nil
}

// message is one datagram from the zygote. It can be trusted, because no other process in the cell has the socket.
type message struct {
	kind byte
	rest []byte
}

var errCellDied = errors.New("the cell died")

// receive reads one message. It does not block: its callers have polled the socket.
func (c *cell) receive() (message, error) {
	var buf [64]byte
	n, err := unix.Read(c.control, buf[:])
	for err == unix.EINTR {
		n, err = unix.Read(c.control, buf[:])
	}
	if err == unix.ECONNRESET || err == nil && n == 0 {
		pollOne(c.pidfd, time.Now().Add(time.Second)) // the socket is closed, but the process may still be exiting
		if why := c.complaint(); why != "" {
			return message{}, fmt.Errorf("%w: %s", errCellDied, why)
		}
		return message{}, errCellDied
	}
	if err != nil {
		return message{}, fmt.Errorf("read from a cell: %w", err)
	}
	return message{kind: buf[0], rest: buf[1:n]}, nil
}

// endReport is the zygote's report on a test that has ended.
type endReport struct {
	wait       unix.WaitStatus
	cpu        time.Duration
	peakMemory int64
	leftBehind bool
}

func (m message) endReport() (endReport, error) {
	if len(m.rest) != 21 {
		return endReport{}, fmt.Errorf("the report of a cell has %d bytes, want 21", len(m.rest))
	}
	return endReport{
		wait:       unix.WaitStatus(binary.NativeEndian.Uint32(m.rest)),
		cpu:        time.Duration(binary.NativeEndian.Uint64(m.rest[4:])) * time.Microsecond,
		peakMemory: int64(binary.NativeEndian.Uint64(m.rest[12:])) << 10,
		leftBehind: m.rest[20] != 0,
	}, nil
}

// pollOne waits until a descriptor is readable or its other end is closed. It returns false if the deadline comes first.
func pollOne(fd int, until time.Time) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, pollTimeout(until))
		if err == unix.EINTR {
			continue
		}
		return n > 0
	}
}

// pollTimeout is the time left in milliseconds, rounded up so that poll does not return early.
func pollTimeout(until time.Time) int {
	left := time.Until(until)
	if left <= 0 {
		return 0
	}
	return int((left + time.Millisecond - 1) / time.Millisecond)
}
