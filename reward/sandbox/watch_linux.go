//go:build linux && (amd64 || arm64)

package sandbox

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-7879b91d/grpo/reward/internal/program"
	"github.com/seed-7879b91d/grpo/reward/sandbox/internal/jail"
	"github.com/seed-7879b91d/grpo/reward/sandbox/internal/proc"
	"github.com/seed-7879b91d/grpo/reward/sandbox/internal/scratch"
)

const (
	// groupSlack is what a memory group allows for the zygote and the kernel, on top of the program's limit
	// and the files that it may write. The peak of the program alone decides whether it exceeded its limit,
	// so the verdict is the same with and without a group.
	groupSlack = 48 << 20
	// memoryInterval is how often memory is polled where no group bounds it.
	memoryInterval = 10 * time.Millisecond
	// scratchFull is the message on standard error of a program that has written too much.
	scratchFull = "\nthe scratch directory is full\n"
)

// watch supervises one test, or one call of a session.
type watch struct {
	cell           *cell
	limits         Limits
	files          *testFiles
	start          time.Time
	stderr         tail
	oomKillsBefore int // processes of the memory group that were killed before the test
	// readTail reads what has arrived at files.tail, and reports whether follow can stop waiting.
	readTail func() (enough bool)
	// What the process of a session had used when the call began.
	cpuBefore, waitedBefore time.Duration

	pid        int // of the test; 0 until it is known
	cpu        time.Duration
	peakMemory int64
	stopped    Status // why we killed the cell, if we did
}

// run runs one test. An error is a failure of the machine or the end of ctx; the cell must then be
// closed.
func (c *cell) run(ctx context.Context, p Program, in Input, l Limits) (r Result, err error) {
	files, err := newTestFiles(p, in)
	if err != nil {
		return r, err
	}
	defer files.close()
	w := &watch{cell: c, limits: l, files: files}
	w.readTail = func() bool { w.stderr.drain(files.tail); return false }
	if err := w.boundMemory(); err != nil {
		return r, err
	}
	defer context.AfterFunc(ctx, c.kill)()
	w.start = time.Now()
	if err := w.send(l.CPU); err != nil {
		return r, fmt.Errorf("send a test: %w", err)
	}
	d, err := w.follow()
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	if err != nil {
		return r, err
	}
	return w.result(p, d)
}

// boundMemory sets the limit of the memory group, if there is one.
func (w *watch) boundMemory() (err error) {
	if w.cell.group == nil {
		return nil
	}
	if err := w.cell.group.setLimit(w.limits.Memory + 2*w.limits.Output + scratch.Bytes + groupSlack); err != nil {
		return fmt.Errorf("memory limit: %w", err)
	}
	if w.oomKillsBefore, err = w.cell.group.oomKills(); err != nil {
		return fmt.Errorf("memory limit: %w", err)
	}
	return nil
}

// send sends the test to the zygote. The limits that the zygote sets for the kernel to enforce are coarser
// than those that decide the verdict, and a little higher.
func (w *watch) send(cpu time.Duration) error {
	seconds := kernelSeconds(cpu)
	space := int64(0)
	if w.cell.group == nil {
		space = addressSpace(w.limits)
	}
	if low := jail.LowLimit(seconds+1, w.limits.Output+1, space); low != "" {
		return &lowLimit{low}
	}
	request := binary.NativeEndian.AppendUint64(nil, uint64(seconds))
	request = binary.NativeEndian.AppendUint64(request, uint64(w.limits.Output+1))
	request = binary.NativeEndian.AppendUint64(request, uint64(space))
	request = append(request, 0)
	if w.cell.hidden {
		request[len(request)-1] = 1
	}
	return unix.Sendmsg(w.cell.control, request, unix.UnixRights(w.files.forZygote()...), nil, unix.MSG_NOSIGNAL)
}

// follow waits for the end of the test, drains files.tail meanwhile, and stops the test at its limits.
// It returns neither report nor error if readTail reports true, or if we or the kernel killed the cell for a limit.
func (w *watch) follow() (*endReport, error) {
	wall, cpu, memory := w.start.Add(w.limits.Wall), w.start.Add(w.limits.CPU), w.start.Add(memoryInterval)
	fds := []unix.PollFd{{Fd: int32(w.cell.control), Events: unix.POLLIN}, {Fd: int32(w.files.tail), Events: unix.POLLIN}}
	watched := w.cell.group == nil
	for {
		until := wall
		if cpu.Before(until) {
			until = cpu
		}
		if watched && memory.Before(until) {
			until = memory
		}
		_, err := unix.Poll(fds, pollTimeout(until))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("poll: %w", err)
		}
		if fds[1].Revents != 0 && w.readTail() {
			return nil, nil
		}
		if fds[0].Revents != 0 {
			if d, err := w.receiveReport(); d != nil || err != nil || w.stopped != 0 {
				return d, err
			}
		}
		now := time.Now()
		if !now.Before(cpu) {
			cpu = w.checkCPU(now)
		}
		if watched && !now.Before(memory) {
			memory = w.checkMemory(now)
			if err := w.checkScratch(); err != nil {
				return nil, err
			}
		}
		if !now.Before(wall) {
			if wall, err = w.checkWall(now); err != nil {
				return nil, err
			}
		}
		if w.stopped != 0 {
			w.cell.kill()
			w.cell.spent = true
			pollOne(w.cell.pidfd, now.Add(10*time.Second)) // the files must not change while we read them
			return nil, nil
		}
	}
}

// receiveReport receives the zygote's report, or, where cells are hidden, the process id that comes before it.
func (w *watch) receiveReport() (*endReport, error) {
	m, err := w.cell.receive()
	if errors.Is(err, errCellDied) && w.groupKilled() {
		w.stopped, w.cell.spent = MLE, true
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if m.kind == 'B' && len(m.rest) == 4 {
		w.pid = int(binary.NativeEndian.Uint32(m.rest))
		return nil, nil
	}
	if m.kind != 'D' {
		return nil, fmt.Errorf("a cell said %q", m.kind)
	}
	d, err := m.endReport()
	w.readTail()
	if w.cell.spent = d.leftBehind; d.leftBehind && err == nil {
		err = w.checkScratch() // the test may have written since the last check
	}
	return &d, err
}

// test is the process id of the test, the only child of its zygote; 0 when it has ended, or is hidden and not reported yet.
func (w *watch) test() int {
	if w.pid == 0 && !w.cell.hidden {
		w.pid = proc.OnlyChild(w.cell.pid)
	}
	return w.pid
}

// checkCPU stops a test that has used up its processor time, and returns when to check again: when a
// single thread could have used up the rest. Several threads may have used more by then, which the
// processor time in the report shows.
func (w *watch) checkCPU(now time.Time) time.Time {
	w.cpu = max(w.cpu, proc.CPU(w.test())-w.cpuBefore)
	if w.cpu > w.limits.CPU {
		w.stopped = TLE
	}
	return now.Add(max(w.limits.CPU-w.cpu, 2*time.Millisecond))
}

func (w *watch) checkMemory(now time.Time) time.Time {
	resident := proc.Memory(w.test())
	w.peakMemory = max(w.peakMemory, resident)
	if resident > w.limits.Memory {
		w.stopped = MLE
	}
	return now.Add(memoryInterval)
}

// checkScratch stops a test that has written too much to its scratch directory, if no file system of its own bounds that.
func (w *watch) checkScratch() error {
	if w.cell.scratch == "" {
		return nil
	}
	full, err := scratch.Overflows(w.cell.scratch)
	if err != nil {
		return fmt.Errorf("look at the scratch directory: %w", err)
	}
	if full {
		w.stopped = RTE
		w.stderr.add([]byte(scratchFull))
	}
	return nil
}

// checkWall stops a test that has slept too long, and returns when to check again.
func (w *watch) checkWall(now time.Time) (time.Time, error) {
	w.checkCPU(now)
	t := proc.ThreadsOf(w.test())
	t.Waited = max(t.Waited-w.waitedBefore, 0)
	left, err := w.limits.sleepLeft(now.Sub(w.start), t)
	if err == nil && left <= 0 {
		w.stopped = TLE
	}
	return now.Add(left), err
}

// groupKilled reports whether the kernel has killed a process of the cell for its memory since the test began.
func (w *watch) groupKilled() bool {
	if w.cell.group == nil {
		return false
	}
	kills, err := w.cell.group.oomKills()
	return err == nil && kills > w.oomKillsBefore
}

// result is the Result of a test that has ended. A SIGKILL that no limit explains came from outside,
// since a program cannot send itself one.
func (w *watch) result(p Program, d *endReport) (r Result, err error) {
	r.Wall = time.Since(w.start)
	r.CPU, r.PeakMemory = w.cpu, w.peakMemory
	var outSize int64
	if r.Stdout, outSize, err = readMemoryFile(w.files.stdout, w.limits.Output); err != nil {
		return r, fmt.Errorf("read the output: %w", err)
	}
	progress, _, err := readMemoryFile(w.files.request, 2*stderrTail)
	if err != nil {
		return r, fmt.Errorf("read the progress: %w", err)
	}
	if len(progress) > 0 && (progress[0] == program.Unread || progress[0] == program.Unprepared) {
		return r, fmt.Errorf("a cell could not prepare a test: %.200q", progress)
	}
	memory := w.stopped == MLE
	if d != nil {
		r.CPU, r.PeakMemory = d.cpu, d.peakMemory
		r.ExitCode, r.Signal = max(d.wait.ExitStatus(), 0), signalOf(d.wait)
		memory = d.peakMemory > w.limits.Memory || r.Signal == int(unix.SIGKILL) && w.groupKilled()
		if r.Signal == int(unix.SIGKILL) && !memory && r.CPU <= w.limits.CPU {
			return r, errors.New("a test was killed from outside its cell")
		}
	}
	r.Stderr = w.stderr.String()
	switch {
	case len(progress) == 0 || progress[0] == program.CompileError:
		r.Status = CE
		if r.Stderr = "the program cannot be compiled within the limits"; len(progress) > 0 {
			r.Stderr = string(progress[1:])
		}
	case outSize > w.limits.Output:
		r.Status = OLE
	case memory:
		r.Status = MLE
	case w.stopped == TLE || r.CPU > w.limits.CPU:
		r.Status = TLE
	case w.stopped == RTE || r.ExitCode != 0 || r.Signal != 0:
		r.Status = RTE
	default:
		r.Status = OK
	}
	if p.Call != "" && (r.Status == OK || p.Record) {
		content, _, err := readMemoryFile(w.files.result, w.limits.Output)
		if err != nil {
			return r, fmt.Errorf("read the result: %w", err)
		}
		r.take(p, content)
	}
	return r, nil
}

func signalOf(w unix.WaitStatus) int { return max(int(w.Signal()), 0) } // Signal is -1 if there was none
