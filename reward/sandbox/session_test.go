//go:build linux && (amd64 || arm64)

package sandbox

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-7879b91d/grpo/reward/sandbox/internal/proc"
)

// evaluator runs all lines of a request but the last, and answers with the value of the last.
const evaluator = `
import os
def take(n):
    data = b""
    while len(data) < n: data += os.read(3, n - len(data)) or os._exit(0)
    return data
def serve():
    names = {}
    os.write(3, bytes(12))
    while True:
        token = take(8)
        before, _, last = take(int.from_bytes(take(4), "little")).decode().rpartition("\n")
        exec(before, names)
        text = repr(eval(last, names)).encode()
        os.write(3, token + len(text).to_bytes(4, "little") + text)
`

func newTestSession(t *testing.T, p *Pool) *Session {
	s := p.NewSession(t.Name(), Program{Code: evaluator, Call: "serve"}, SessionLimits{
		Call: Limits{CPU: 150 * time.Millisecond, Wall: 500 * time.Millisecond, Memory: 64 << 20}, Keep: 10})
	t.Cleanup(s.Close)
	return s
}

func expectReply(t *testing.T, s *Session, code, want string) Reply {
	t.Helper()
	r, err := s.Call(t.Context(), []byte(code))
	if err != nil {
		t.Fatalf("%s: %v", code, err)
	}
	got := r.Status.String()
	if r.Status == OK {
		got = string(r.Answer)
	}
	if !strings.Contains(got, want) {
		t.Errorf("%s: got %s (exit code %d, signal %d, %s), want %s", code, got, r.ExitCode, r.Signal, r.Stderr.Head, want)
	}
	return r
}

// TestSession: a process keeps its state between calls, when it is stopped; whatever ends it, the next call starts a new one. The long
// form checks every rung.
func TestSession(t *testing.T) {
	t.Parallel()
	if full == 0 {
		session(t, openPool(t, 0, 1))
		return
	}
	for _, rung := range attackedRungs() {
		t.Run(rung.String(), func(t *testing.T) { session(t, openPool(t, rung, 1)) })
	}
}

func session(t *testing.T, p *Pool) {
	s := newTestSession(t, p)
	expectReply(t, s, "n = 1\nn", "1")
	expectReply(t, s, "n += 1\nn", "2")
	r := expectReply(t, s, "os = __import__('os')\nos.write(1, b'0123456789' * 10)", "100")
	if string(r.Stdout.Head) != "0123456789" || r.Stdout.LeftOut != 80 || string(r.Stdout.Tail) != "0123456789" {
		t.Errorf("kept %+v of the output", r.Stdout)
	}
	if r = expectReply(t, s, "n", "2"); len(r.Stdout.Head) > 0 {
		t.Errorf("an old output came again: %q", r.Stdout.Head)
	}

	// A counting thread is stopped between calls.
	expectReply(t, s, "import threading, time\ncount = [0]\ndef spin():\n  while True: count[0] += 1; time.sleep(0.001)\n"+
		"threading.Thread(target=spin, daemon=True).start()\ncount[0] >= 0", "True")
	pid := s.running.(*cellSession).pid
	for deadline := time.Now().Add(time.Minute); proc.ThreadsOf(pid).Runnable && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond) // it has the signal to stop, but may not have stopped yet
	}
	cpu := proc.CPU(pid)
	time.Sleep(20 * time.Millisecond)
	if used := proc.CPU(pid) - cpu; used != 0 {
		t.Errorf("a process that waits has used %v", used)
	}

	for _, c := range []struct{ code, want string }{
		{"os.write(3, b'x' * 100)", "RTE"},         // no answer to this call
		{"while True: pass\n1", "TLE"},             //
		{"blocks = [b'x' * (80 << 20)]\n1", "MLE"}, //
		{"import os; os.dup2(0, 3)\n1", "RTE"},     // it has closed its socket
		{"import socket; socket.socket(fileno=3).shutdown(1); __import__('time').sleep(9)\n1", "RTE"},
	} {
		expectReply(t, s, c.code, c.want)
		expectReply(t, s, "import os\nlen(globals())", "2") // what exec puts there, and os
	}
	s.Close()
	if _, err := s.Call(t.Context(), nil); err == nil {
		t.Error("a closed session answers")
	}
	expectHonest(t, p)
}

// TestAPoolEndsSessionsAtRest: closing a pool ends a session that is idle and not closed.
func TestAPoolEndsSessionsAtRest(t *testing.T) {
	t.Parallel()
	p := openPool(t, 0, 1)
	s := newTestSession(t, p)
	expectReply(t, s, "1", "1")
	all := processTree(p.factory.(*cells).supervisor.Pid())
	p.Close()
	if _, err := s.Call(t.Context(), []byte("1")); !errors.Is(err, ErrClosed) {
		t.Errorf("a session of a closed pool gave %v", err)
	}
	expectGone(t, all)
}

// TestAHiddenProcessIsToldOfLate: where /proc hides a cell, its process may write before the zygote reports the process id.
func TestAHiddenProcessIsToldOfLate(t *testing.T) {
	for _, c := range []struct {
		said []byte
		pid  int
		err  string
	}{
		{binary.NativeEndian.AppendUint32([]byte{'B'}, 77), 77, ""},
		{append([]byte{'D'}, make([]byte, 21)...), 0, errEnded.Error()},
		{[]byte("?"), 0, `a cell said '?'`},
	} {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(pair[0])
		defer unix.Close(pair[1])
		w := &watch{cell: &cell{control: pair[0], hidden: true}, readTail: func() bool { return true }}
		go func() {
			time.Sleep(5 * time.Millisecond)
			unix.Write(pair[1], c.said)
		}()
		if pid, err := w.awaitPid(); pid != c.pid || c.err == "" && err != nil || c.err != "" && (err == nil || err.Error() != c.err) {
			t.Errorf("%q: found process %d and %v, want %d and %q", c.said, pid, err, c.pid, c.err)
		}
	}
}

// TestSessionLeft: a process that exits as it answers has ended by itself, whether the answer or the exit is noticed first.
func TestSessionLeft(t *testing.T) {
	t.Parallel()
	s := newTestSession(t, openPool(t, 0, 1))
	for range 12 {
		expectReply(t, s, "import os, sys\ntoken = sys._getframe(1).f_locals['token']\n"+
			"data = token + (1 << 20).to_bytes(4, 'little') + b'gone' * (1 << 18)\n"+
			"while data: data = data[os.write(3, data):]\nos._exit(7)\n1", "gone")
		if r := expectReply(t, s, "1", "RTE"); r.ExitCode != 7 {
			t.Fatalf("the end of a process was told with exit code %d, signal %d", r.ExitCode, r.Signal)
		}
	}
}

// TestSessionsAndTheMachine: a failure of the machine during a session is an error; a clean cell is reused by the next session; closing
// a pool ends its open sessions, including those that wait.
func TestSessionsAndTheMachine(t *testing.T) {
	t.Parallel()
	p := openPool(t, 0, 1)
	s := newTestSession(t, p)
	expectReply(t, s, "1", "1")
	first := s.place.worker.(*cell).pid
	s.Close()
	s = newTestSession(t, p)
	expectReply(t, s, "2", "2")
	if s.place.worker.(*cell).pid != first {
		t.Error("a cell that was left clean was not used again")
	}

	unix.Kill(s.running.(*cellSession).pid, unix.SIGKILL)
	_, err := s.Call(t.Context(), []byte("1"))
	if broken := (*InfraError)(nil); !errors.As(err, &broken) {
		t.Errorf("a process killed from outside gave %v, want an *InfraError", err)
	}
	expectReply(t, s, "3", "3")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.Call(ctx, []byte("while True: pass\n1")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call that was given up gave %v", err)
	}
	expectReply(t, s, "4", "4")

	calls := make(chan error)
	go func() {
		_, err := s.Call(t.Context(), []byte("import time; time.sleep(100)\n1"))
		calls <- err
	}()
	all := processTree(p.factory.(*cells).supervisor.Pid())
	p.Close()
	if err := <-calls; !errors.Is(err, ErrClosed) {
		t.Errorf("a call under way gave %v when the pool was closed", err)
	}
	expectGone(t, all)
}
