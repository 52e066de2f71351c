//go:build linux && (amd64 || arm64)

package jail

import (
	"encoding/binary"
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// newNamespaces are the flags of clone that create a namespace, and those that give the new process
// another parent or tracer.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_PARENT | unix.CLONE_PTRACE

// FIONBIO, FIONCLEX and FIOCLEX, which x/sys does not define.
const (
	fioNonBlock    = 0x5421
	fioKeepOnExec  = 0x5450
	fioCloseOnExec = 0x5451
)

// zygoteFilter is the filter of the whole cell, installed before the interpreter starts. It allows the
// calls of a program, and the few more that the zygote needs to start and report tests.
func zygoteFilter() filter {
	f := filter{
		load(offArch),
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: auditArch},
		verdict(deny),
		load(offNumber),
	}
	f = append(f, unless(unix.BPF_JGE, foreignCalls, 1), verdict(deny))
	for _, call := range openCalls {
		f = f.on(call[0], openRules(call[1])...)
	}
	for _, s := range spans(calls, zygoteCalls, archCalls, forkCalls) {
		f = f.span(s[0], s[1])
	}
	f = f.on(unix.SYS_MMAP, mmapRules()...)
	f = f.on(unix.SYS_FALLOCATE, oneOf(1, 0)...) // other modes allocate beyond the end of a file, which RLIMIT_FSIZE does not see
	f = f.on(unix.SYS_CLONE, arg(0), unless(unix.BPF_JSET, newNamespaces, 1), verdict(deny), verdict(allow))
	f = f.on(unix.SYS_CLONE3, verdict(absent))
	f = f.on(unix.SYS_PRCTL, oneOf(0, unix.PR_SET_SECCOMP, unix.PR_SET_PDEATHSIG, unix.PR_SET_DUMPABLE, unix.PR_SET_NAME)...)
	f = f.on(unix.SYS_IOCTL, oneOf(1, unix.TCGETS, unix.TIOCGWINSZ, unix.TIOCINQ, fioNonBlock, fioCloseOnExec, fioKeepOnExec)...)
	f = f.on(unix.SYS_FCNTL, oneOf(1, unix.F_DUPFD, unix.F_DUPFD_CLOEXEC, unix.F_GETFD, unix.F_SETFD, unix.F_GETFL,
		unix.F_SETFL, unix.F_GETPIPE_SZ)...)
	// Stream sockets of a pair cannot be connected elsewhere; a datagram socket could send to any address.
	f = f.on(unix.SYS_SOCKETPAIR,
		arg(0), unless(unix.BPF_JEQ, unix.AF_UNIX, 3),
		arg(1), statement(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0xf),
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: unix.SOCK_STREAM},
		verdict(deny), verdict(allow))
	// A process may read and set its own limits only (pid 0), not those of others with its user.
	f = f.on(unix.SYS_PRLIMIT64, oneOf(0, 0)...)
	f = f.on(setLimitCall, verdict(allow))
	return append(f, verdict(deny))
}

// openRules allow opening a file for reading, writing or both. They deny the fourth access mode, which neither reads nor writes and
// so is not subject to landlock, and O_TRUNC without writing, which landlock governs in later kernels only.
func openRules(flags uint32) []unix.SockFilter {
	const neither = unix.O_WRONLY | unix.O_RDWR
	body := []unix.SockFilter{arg(flags), statement(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, unix.O_ACCMODE|unix.O_TRUNC)}
	for _, v := range []uint32{neither, neither | unix.O_TRUNC, unix.O_RDONLY | unix.O_TRUNC} {
		body = append(body, unless(unix.BPF_JEQ, v, 1), verdict(deny))
	}
	return append(body, verdict(allow))
}

// mmapRules allow only memory that is counted as the process's own. Shared anonymous memory stays allocated when all but a page of it
// is unmapped, and huge pages are not counted: with either a program could take all memory of the machine. /dev/zero would give the
// former too, but is not in a cell.
func mmapRules() []unix.SockFilter {
	const shared = unix.MAP_SHARED | unix.MAP_ANONYMOUS // MAP_SHARED_VALIDATE has the same bit
	return []unix.SockFilter{
		arg(3), unless(unix.BPF_JSET, unix.MAP_HUGETLB, 1), verdict(deny),
		statement(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, shared), unless(unix.BPF_JEQ, shared, 1), verdict(deny), verdict(allow),
	}
}

// testFilter is the additional filter of a test. It denies what only the zygote needs: to create
// processes, to execute programs, and to reach any process but itself. A test may not even send itself
// SIGKILL: a test that dies of that signal was killed from outside, so a program cannot fake a failure of
// the machine. The process id of the test is not known yet; pids are the byte offsets in the program at
// which it must be written.
func testFilter() (f filter, pids []int) {
	f = filter{load(offNumber)}
	for _, number := range append(slices.Clone(forkCalls), unix.SYS_EXECVE, unix.SYS_RECVMSG, unix.SYS_SENDMSG,
		unix.SYS_SETSID, unix.SYS_SECCOMP) {
		f = f.on(number, verdict(deny))
	}
	f = f.on(unix.SYS_CLONE, arg(0), unless(unix.BPF_JSET, unix.CLONE_THREAD, 1), verdict(allow), verdict(deny))
	f = f.on(unix.SYS_PRCTL, oneOf(0, unix.PR_SET_NAME)...)
	// kill(pid, signal), tkill(tid, signal), tgkill(pid, tid, signal)
	for _, call := range [][2]uint32{{unix.SYS_KILL, 1}, {unix.SYS_TKILL, 1}, {unix.SYS_TGKILL, 2}} {
		f = f.on(call[0],
			arg(call[1]), unless(unix.BPF_JEQ, uint32(unix.SIGKILL), 1), verdict(deny),
			arg(0), unless(unix.BPF_JEQ, 0, 1), verdict(allow), verdict(deny))
		pids = append(pids, (len(f)-3)*int(unsafe.Sizeof(unix.SockFilter{}))+4)
	}
	// Only the stack limit may be set, which programs raise for deep recursion. With a lower limit of
	// processor time a program could have itself killed by SIGKILL.
	f = f.on(unix.SYS_PRLIMIT64,
		arg(1), unless(unix.BPF_JEQ, unix.RLIMIT_STACK, 1), verdict(allow),
		arg(2), unless(unix.BPF_JEQ, 0, 3),
		argHigh(2), unless(unix.BPF_JEQ, 0, 1), verdict(allow),
		verdict(deny))
	f = f.on(setLimitCall, oneOf(0, unix.RLIMIT_STACK)...)
	return append(f, verdict(allow)), pids
}

// TestFilter is the filter that each test installs, as the kernel reads it, and the byte offsets at which
// the process id of the test must be written first.
func TestFilter() (program []byte, pids []int) {
	f, pids := testFilter()
	for _, i := range f {
		program = binary.NativeEndian.AppendUint16(program, i.Code)
		program = append(program, i.Jt, i.Jf)
		program = binary.NativeEndian.AppendUint32(program, i.K)
	}
	return program, pids
}

// spans merges the numbers into sorted ranges.
func spans(lists ...[]uint32) [][2]uint32 {
	numbers := slices.Concat(lists...)
	slices.Sort(numbers)
	var out [][2]uint32
	for _, n := range numbers {
		if last := len(out) - 1; last >= 0 && n <= out[last][1]+1 {
			out[last][1] = n
		} else {
			out = append(out, [2]uint32{n, n})
		}
	}
	return out
}

// install applies the filter to the calling thread, and to what it executes or forks.
func (f filter) install() error {
	prog := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	_, _, errno := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return fmt.Errorf("seccomp filter: %w", errno)
	}
	return nil
}
