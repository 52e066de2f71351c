//go:build linux && (amd64 || arm64)

package sandbox

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-7879b91d/grpo/reward/internal/program"
	"github.com/seed-7879b91d/grpo/reward/sandbox/internal/proc"
)

// cellSession is the process of a session in a cell. To the zygote it is one long test, whose result descriptor is a
// socket. Its standard output and error are memory files, emptied before every call. Between calls the process is stopped
// with all its threads, so that it costs only memory.
//
// A request is a random token of eight bytes, the length and the content. The answer has the same form and the same token,
// so that what a thread of an earlier call writes is not taken for the answer to this call.
type cellSession struct {
	cell   *cell
	files  *testFiles
	limits SessionLimits
	pid    int
	pidfd  int
	used   time.Duration // processor time until the end of the last call
	ended  bool
}

// startLimit is the processor time that a process may use until it reports that it is ready. It can be generous, because until
// then the process runs only trusted code.
const startLimit = 10 * time.Second

const frameHeader = 12

func (c *cell) begin(ctx context.Context, p Program, l SessionLimits) (sessionProcess, error) {
	files, err := newSessionFiles(p)
	if err != nil {
		return nil, err
	}
	t := &cellSession{cell: c, files: files, limits: l, pidfd: -1}
	if err := t.start(ctx); err != nil {
		c.kill()
		c.spent = true
		t.close()
		return nil, fmt.Errorf("start a conversation: %w", err)
	}
	return t, nil
}

// newSessionFiles makes the files of a session's process. Unlike those of a test, result and tail are the two ends of a socket.
func newSessionFiles(p Program) (f *testFiles, err error) {
	f = &testFiles{-1, -1, -1, -1, -1, -1}
	defer func() {
		if err != nil {
			f.close()
			f, err = nil, fmt.Errorf("files of a conversation: %w", err)
		}
	}()
	if f.request, err = memoryFile("request", program.Request(p.Code, p.Call, nil)); err != nil {
		return
	}
	for _, fd := range []*int{&f.stdin, &f.stdout, &f.stderr} {
		if *fd, err = memoryFile("stream", nil); err != nil {
			return
		}
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	f.tail, f.result = pair[0], pair[1]
	return f, unix.SetNonblock(f.tail, true)
}

// start has the zygote fork the process, and waits until it is ready.
func (t *cellSession) start(ctx context.Context) error {
	w := t.watch(Limits{CPU: startLimit, Memory: t.limits.Call.Memory, Output: t.limits.Call.Output}.effective())
	ready := frame{fd: t.files.tail}
	w.readTail = ready.read
	if err := w.boundMemory(); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, t.cell.kill)()
	w.start = time.Now()
	if err := w.send(t.limits.Total + startLimit); err != nil {
		return err
	}
	d, err := w.follow()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return err
	case d != nil || w.stopped != 0 || !ready.whole():
		text, _, _ := readMemoryFile(t.files.stderr, stderrTail)
		return fmt.Errorf("the process was not ready after %v: %s", time.Since(w.start), lastLine(string(text)))
	}
	if t.pid, err = w.awaitPid(); err != nil {
		return err
	}
	if t.pidfd, err = unix.PidfdOpen(t.pid, 0); err != nil {
		return err
	}
	if proc.Parent(t.pid) != t.cell.pid {
		return errEnded
	}
	return t.signal(unix.SIGSTOP)
}

var errEnded = errors.New("the process ended as soon as it was ready")

// awaitPid finds the process id of a test that has written something. If the cell is hidden, it waits for the zygote's message with the id.
func (w *watch) awaitPid() (pid int, err error) {
	for w.test() == 0 {
		if !w.cell.hidden {
			return 0, errEnded
		}
		if !pollOne(w.cell.control, time.Now().Add(startLimit)) {
			return 0, fmt.Errorf("a cell did not report within %v which process is the test", startLimit)
		}
		if d, err := w.receiveReport(); err != nil {
			return 0, err
		} else if d != nil || w.stopped != 0 {
			return 0, errEnded
		}
	}
	return w.pid, nil
}

// watch begins to supervise a call.
func (t *cellSession) watch(l Limits) *watch {
	return &watch{cell: t.cell, limits: l, files: t.files, pid: t.pid, start: time.Now()}
}

func (t *cellSession) signal(s unix.Signal) error {
	if err := unix.PidfdSendSignal(t.pidfd, s, nil, 0); err != unix.ESRCH {
		return err
	}
	return nil // the process has ended by itself; the zygote will report it
}

func (t *cellSession) call(ctx context.Context, request []byte, l Limits) (r Reply, err error) {
	answer := frame{fd: t.files.tail}
	rand.Read(answer.token[:]) // never fails
	w := t.watch(l)
	w.readTail = answer.read
	w.cpuBefore, w.waitedBefore = max(proc.CPU(t.pid), t.used), proc.ThreadsOf(t.pid).Waited
	if err := errors.Join(w.boundMemory(), truncate(t.files.stdout), truncate(t.files.stderr), t.signal(unix.SIGCONT)); err != nil {
		return r, fmt.Errorf("begin a call: %w", err)
	}
	defer context.AfterFunc(ctx, t.cell.kill)()
	message := binary.LittleEndian.AppendUint32(answer.token[:8:8], uint32(len(request)))
	message = append(message, request...)
	if n, err := unix.Write(t.files.tail, message); err != nil && err != unix.EAGAIN && err != unix.EPIPE {
		return r, fmt.Errorf("send a call: %w", err)
	} else if n < len(message) {
		answer.broken = true // the socket is full or closed: the process does not read its calls
	}
	var d *endReport
	if !answer.broken {
		d, err = w.follow()
	}
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	if err != nil {
		return r, err
	}
	return t.reply(w, d, &answer)
}

// reply is the Reply to a call. Afterwards the process is stopped, if it has answered, and otherwise gone.
func (t *cellSession) reply(w *watch, d *endReport, answer *frame) (r Reply, err error) {
	answered := d == nil && w.stopped == 0 && answer.whole()
	if answered {
		if err := t.signal(unix.SIGSTOP); err != nil {
			return r, fmt.Errorf("stop a process between calls: %w", err)
		}
		w.cpu = max(w.cpu, proc.CPU(t.pid)-w.cpuBefore)
		t.used = w.cpuBefore + w.cpu
		if proc.Memory(t.pid) > w.limits.Memory {
			w.stopped, answered = MLE, false
		}
	}
	r.Wall, r.CPU = time.Since(w.start), w.cpu
	if d != nil {
		t.ended = true // the zygote can take the next test, unless this one left something behind
		r.CPU = max(d.cpu-w.cpuBefore, 0)
		r.ExitCode, r.Signal = max(d.wait.ExitStatus(), 0), signalOf(d.wait)
	} else if !answered {
		t.cell.kill()
		t.cell.spent = true
		pollOne(t.cell.pidfd, time.Now().Add(10*time.Second)) // the files must not change while we read them
	}
	if r.Stdout, err = excerpt(t.files.stdout, t.limits.Keep); err != nil {
		return r, err
	}
	if r.Stderr, err = excerpt(t.files.stderr, t.limits.Keep); err != nil {
		return r, err
	}
	killed := r.Signal == int(unix.SIGKILL)
	switch {
	case answered:
		r.Status, r.Answer = OK, answer.content()
	case w.stopped == MLE, killed && w.groupKilled():
		r.Status = MLE
	case w.stopped == TLE, d != nil && r.CPU > w.limits.CPU:
		r.Status = TLE
	case killed:
		return r, errors.New("a conversation was killed from outside its cell")
	default:
		r.Status = RTE
	}
	return r, nil
}

// end ends the process. The cell can be used again if the process leaves nothing behind.
func (t *cellSession) end() {
	defer t.close()
	if t.ended || t.cell.spent {
		return
	}
	t.cell.spent = true
	if t.signal(unix.SIGKILL) != nil || !pollOne(t.cell.control, time.Now().Add(10*time.Second)) {
		return
	}
	if m, err := t.cell.receive(); err == nil && m.kind == 'D' {
		d, err := m.endReport()
		t.cell.spent = err != nil || d.leftBehind
	}
}

func (t *cellSession) close() {
	t.ended = true
	t.files.close()
	if t.pidfd >= 0 {
		unix.Close(t.pidfd)
		t.pidfd = -1
	}
}

// frame is the part of an answer that has arrived.
type frame struct {
	fd     int
	token  [8]byte
	got    []byte
	broken bool // malformed, or not an answer to this call
}

// read reads what has arrived, without blocking, and reports whether no more is expected: the answer is complete or broken.
func (f *frame) read() bool {
	var buf [16 << 10]byte
	for !f.broken && !f.whole() {
		n, err := unix.Read(f.fd, buf[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			f.broken = err == nil // the process has closed its end
			return f.broken
		}
		f.got = append(f.got, buf[:n]...)
		f.broken = len(f.got) >= 8 && [8]byte(f.got) != f.token || len(f.got) >= frameHeader && f.size() > maxAnswer ||
			len(f.got) >= frameHeader && len(f.got) > frameHeader+f.size()
	}
	return true
}

func (f *frame) size() int { return int(binary.LittleEndian.Uint32(f.got[8:])) }

func (f *frame) whole() bool {
	return !f.broken && len(f.got) >= frameHeader && len(f.got) == frameHeader+f.size()
}

func (f *frame) content() []byte { return f.got[frameHeader:] }

// truncate empties a memory file and resets its offset, which we share with the process that writes it.
func truncate(fd int) error {
	if _, err := unix.Seek(fd, 0, 0); err != nil {
		return err
	}
	return unix.Ftruncate(fd, 0)
}

// excerpt reads the beginning and the end of a memory file.
func excerpt(fd, keep int) (e Excerpt, err error) {
	var size int64
	if e.Head, size, err = readMemoryFile(fd, int64(keep)); err != nil {
		return e, fmt.Errorf("read the output: %w", err)
	}
	rest := size - int64(len(e.Head))
	e.Tail = make([]byte, min(rest, int64(keep)))
	e.LeftOut = rest - int64(len(e.Tail))
	n, err := unix.Pread(fd, e.Tail, size-int64(len(e.Tail)))
	if err != nil {
		return e, fmt.Errorf("read the output: %w", err)
	}
	e.Tail = e.Tail[:n]
	return e, nil
}
