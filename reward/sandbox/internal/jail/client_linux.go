//go:build linux && (amd64 || arm64)

package jail

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Supervisor is our handle on the process that starts cells.
type Supervisor struct {
	mu      sync.Mutex
	command int
	process *os.Process
}

// answerTimeout is how long the supervisor may take to start a cell, far more than it needs.
const answerTimeout = 10 * time.Second

// StartSupervisor runs this binary again, as a supervisor.
func StartSupervisor() (*Supervisor, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("supervisor: %w", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "")
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		unix.Close(pair[0])
		return nil, fmt.Errorf("supervisor: %w", err)
	}
	defer null.Close()
	timeout := unix.NsecToTimeval(answerTimeout.Nanoseconds())
	if err := unix.SetsockoptTimeval(pair[0], unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		unix.Close(pair[0])
		return nil, fmt.Errorf("supervisor: %w", err)
	}
	process, err := os.StartProcess("/proc/self/exe", []string{supervisorName}, &os.ProcAttr{
		Dir:   "/",
		Env:   []string{briefCrashes},
		Files: []*os.File{null, null, null, theirs},
		Sys:   &syscall.SysProcAttr{Setsid: true}, // Ctrl-C is for the run, which then closes the pool
	})
	if err != nil {
		unix.Close(pair[0])
		return nil, fmt.Errorf("supervisor: %w", err)
	}
	return &Supervisor{command: pair[0], process: process}, nil
}

// Pid is the process id of the supervisor.
func (s *Supervisor) Pid() int { return s.process.Pid }

// ErrLost means that the supervisor has died or no longer answers as it should. Its cells are dead, or
// die when it is closed.
var ErrLost = errors.New("the supervisor is lost")

// StartCell starts a cell and returns its process id and a pidfd, which the caller closes. The cell runs
// as user hostID if the configuration asks for a user of its own; it uses the scratch directory if it has
// no root of its own.
func (s *Supervisor) StartCell(hostID int, scratch string, control, source, config, stderr int) (pid, pidfd int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	order := append(binary.NativeEndian.AppendUint32(nil, uint32(hostID)), scratch...)
	rights := unix.UnixRights(control, source, config, stderr)
	if err := unix.Sendmsg(s.command, order, rights, nil, unix.MSG_NOSIGNAL); err == unix.EPIPE {
		return 0, -1, fmt.Errorf("%w: it has died", ErrLost)
	} else if err != nil {
		return 0, -1, fmt.Errorf("ask the supervisor for a cell: %w", err)
	}
	answer, oob := make([]byte, 4096), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := unix.Recvmsg(s.command, answer, oob, unix.MSG_CMSG_CLOEXEC)
	for err == unix.EINTR {
		n, oobn, _, _, err = unix.Recvmsg(s.command, answer, oob, unix.MSG_CMSG_CLOEXEC)
	}
	switch {
	case err != nil:
		return 0, -1, fmt.Errorf("%w: %w", ErrLost, err)
	case n == 0:
		return 0, -1, fmt.Errorf("%w: it has died", ErrLost)
	case answer[0] == 'E':
		return 0, -1, fmt.Errorf("make a cell: %s", answer[1:n])
	}
	parts, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err == nil && len(parts) == 1 {
		if fds, err := unix.ParseUnixRights(&parts[0]); err == nil && len(fds) == 1 {
			return int(binary.NativeEndian.Uint32(answer[1:5])), fds[0], nil
		}
	}
	return 0, -1, fmt.Errorf("%w: no descriptor of the cell came along: %w", ErrLost, unix.EMFILE)
}

// Close kills the supervisor, and with it all its cells, and waits until it is gone.
func (s *Supervisor) Close() error {
	s.process.Kill()
	s.process.Wait()
	return unix.Close(s.command)
}
