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

// cell is one jailed zygote: a Python with its modules imported that forks a fresh process for every
// test. It runs one test at a time.
type cell struct {
	control int // our end of the socket to the zygote
	stderr  int // what the zygote itself complains about
	pid     int
	group   *memoryGroup // nil where memory is bounded by watching
	scratch string       // a directory of this machine, or empty where the cell has a root of its own
	spent   bool         // something was left behind, or the cell was killed
	hidden  bool         // /proc shows nothing of processes that we must not look into, as a zygote is

	mu    sync.Mutex // guards pidfd against use after close
	pidfd int
}

// kill ends the cell and every process in it. It may be called at any time, from anywhere.
func (c *cell) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pidfd >= 0 {
		unix.PidfdSendSignal(c.pidfd, unix.SIGKILL, nil, 0)
	}
}

// close kills the cell, waits until it is gone and frees what it held.
func (c *cell) close() {
	c.kill()
	// A process descriptor becomes readable when the process has died. The first process of a process
	// namespace dies last.
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

// complaint is what the zygote wrote to its standard error, for the message of a failure.
func (c *cell) complaint() string {
	var t tail
	t.drain(c.stderr)
	return lastWords(t.String())
}

// awaitReady waits for the zygote's first word.
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

// message is one word from the zygote. Nobody else in the cell has the socket.
type message struct {
	kind byte
	rest []byte
}

var errCellDied = errors.New("the cell died")

// receive reads one message. It never waits: poll has said that one is there.
func (c *cell) receive() (message, error) {
	var buf [64]byte
	n, err := unix.Read(c.control, buf[:])
	for err == unix.EINTR {
		n, err = unix.Read(c.control, buf[:])
	}
	if err == unix.ECONNRESET || err == nil && n == 0 {
		pollOne(c.pidfd, time.Now().Add(time.Second)) // it has closed the socket; let it finish dying
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

// done is the zygote's report on a test that has ended.
type done struct {
	wait       unix.WaitStatus
	cpu        time.Duration
	peakMemory int64
	left       bool
}

func (m message) done() (done, error) {
	if len(m.rest) != 21 {
		return done{}, fmt.Errorf("the report of a cell has %d bytes, want 21", len(m.rest))
	}
	return done{
		wait:       unix.WaitStatus(binary.NativeEndian.Uint32(m.rest)),
		cpu:        time.Duration(binary.NativeEndian.Uint64(m.rest[4:])) * time.Microsecond,
		peakMemory: int64(binary.NativeEndian.Uint64(m.rest[12:])) << 10,
		left:       m.rest[20] != 0,
	}, nil
}

// pollOne waits until a descriptor is readable, or closed at its other end, or the time has come.
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

// pollTimeout is the time left in milliseconds, rounded up so that nobody wakes too early.
func pollTimeout(until time.Time) int {
	left := time.Until(until)
	if left <= 0 {
		return 0
	}
	return int((left + time.Millisecond - 1) / time.Millisecond)
}
