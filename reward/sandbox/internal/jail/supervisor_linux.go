//go:build linux && (amd64 || arm64)

package jail

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// The values of argv[0] with which the binary runs in its other roles; ps shows them.
const (
	supervisorName = "grpo-sandbox-supervisor"
	cellName       = "grpo-sandbox-cell"
)

// briefCrashes leaves only the reason of a Go crash on standard error, such as that no thread could be made.
const briefCrashes = "GOTRACEBACK=none"

func init() {
	if len(os.Args) == 0 {
		return
	}
	switch os.Args[0] {
	case supervisorName:
		os.Exit(supervise())
	case cellName:
		fmt.Fprintln(os.Stderr, enter())
		os.Exit(1)
	}
}

// commandFD is the socket on which the supervisor receives its orders.
const commandFD = 3

// supervise starts a cell for every order until the other end of the socket is closed, at the latest by
// the death of the process that holds it. All cells die with the supervisor. To be exact, they die with the
// thread that started them: this one, which is the first and lives as long as the process.
func supervise() int {
	runtime.LockOSThread()
	unix.CloseOnExec(commandFD)
	for {
		hostID, scratch, fds, err := receiveOrder()
		if err != nil {
			return 1
		}
		if fds == nil {
			return 0
		}
		process, pidfd, err := startCell(hostID, scratch, fds)
		for _, fd := range fds {
			unix.Close(fd)
		}
		if err := answerOrder(process, pidfd, err); err != nil {
			return 1
		}
	}
}

// receiveOrder reads the user of the next cell, its scratch directory and its four descriptors. It
// returns neither descriptors nor an error at the end.
func receiveOrder() (hostID int, scratch string, fds []int, err error) {
	message, oob := make([]byte, 4+unix.PathMax), make([]byte, unix.CmsgSpace(4*4))
	n, oobn, _, _, err := unix.Recvmsg(commandFD, message, oob, unix.MSG_CMSG_CLOEXEC)
	for err == unix.EINTR {
		n, oobn, _, _, err = unix.Recvmsg(commandFD, message, oob, unix.MSG_CMSG_CLOEXEC)
	}
	if err != nil || n == 0 {
		return 0, "", nil, err
	}
	parts, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(parts) != 1 {
		return 0, "", nil, fmt.Errorf("order without descriptors: %v", err)
	}
	fds, err = unix.ParseUnixRights(&parts[0])
	return int(binary.NativeEndian.Uint32(message)), string(message[4:n]), fds, err
}

func answerOrder(process *os.Process, pidfd int, failure error) error {
	if failure != nil {
		return unix.Sendmsg(commandFD, append([]byte{'E'}, failure.Error()...), nil, nil, 0)
	}
	go process.Wait()
	defer unix.Close(pidfd)
	answer := binary.NativeEndian.AppendUint32([]byte{'K'}, uint32(process.Pid))
	return unix.Sendmsg(commandFD, answer, unix.UnixRights(pidfd), nil, 0)
}

// startCell starts this binary as a cell. fds are its control socket, source, configuration and
// standard error. It gets no other descriptors but /dev/null, and almost no environment.
func startCell(hostID int, scratch string, fds []int) (*os.Process, int, error) {
	c, err := readConfig(fds[2])
	if err != nil {
		return nil, -1, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, -1, err
	}
	defer null.Close()
	// Duplicates, because the caller closes fds.
	files := []*os.File{null, null}
	for _, i := range []int{3, 0, 1, 2} {
		dup, err := unix.FcntlInt(uintptr(fds[i]), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return nil, -1, err
		}
		f := os.NewFile(uintptr(dup), "")
		defer f.Close()
		files = append(files, f)
	}
	pidfd := -1
	attr := &syscall.SysProcAttr{PidFD: &pidfd, Pdeathsig: syscall.SIGKILL}
	uid := hostID
	if c.Namespaces {
		uid = insideID
		isolate(attr, c.OwnUser, hostID)
	}
	process, err := os.StartProcess("/proc/self/exe", []string{cellName, strconv.Itoa(uid), scratch},
		&os.ProcAttr{Files: files, Env: []string{briefCrashes}, Sys: attr})
	if err != nil {
		return nil, -1, err
	}
	if pidfd < 0 {
		process.Kill()
		process.Wait()
		return nil, -1, fmt.Errorf("this kernel has no pidfd")
	}
	return process, pidfd, nil
}

// isolate requests namespaces for a cell. Root enters them as root, because the interpreter may be in a
// directory that only root can enter, and changes its user before the interpreter starts. Other users can
// map only themselves, and need ambient capabilities, which survive the exec and are dropped as well.
func isolate(attr *syscall.SysProcAttr, ownUser bool, hostID int) {
	attr.Cloneflags = namespaces
	if ownUser {
		ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}, {ContainerID: insideID, HostID: hostID, Size: 1}}
		attr.UidMappings, attr.GidMappings = ids, ids
		attr.GidMappingsEnableSetgroups = true
		return
	}
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: insideID, HostID: os.Getuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: insideID, HostID: os.Getgid(), Size: 1}}
	attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP}
}
