//go:build linux && (amd64 || arm64)

package jail

import "golang.org/x/sys/unix"

// filter is a seccomp program in classic BPF, a sequence of blocks. Each block tests for one system call
// or a range of them; if it matches, the block ends in a verdict, otherwise the next block follows.
type filter []unix.SockFilter

const (
	allow = unix.SECCOMP_RET_ALLOW
	deny  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	// absent (ENOSYS) makes the C library fall back to an older system call, whose arguments a filter can read.
	absent = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)

	// Offsets in struct seccomp_data.
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

func statement(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }

func load(offset uint32) unix.SockFilter {
	return statement(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset)
}

func verdict(v uint32) unix.SockFilter { return statement(unix.BPF_RET|unix.BPF_K, v) }

// unless skips n instructions if the comparison of the loaded word with k fails.
func unless(comparison uint16, k uint32, n int) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | comparison | unix.BPF_K, Jf: uint8(n), K: k}
}

// arg loads the low half of argument i. The arguments checked here are ints, of which the kernel ignores
// the high half as well, so setting that gains a program nothing.
func arg(i uint32) unix.SockFilter { return load(offArgs + 8*i) }

// argHigh loads the high half of argument i.
func argHigh(i uint32) unix.SockFilter { return load(offArgs + 8*i + 4) }

// on adds a block for one system call. Its body must end in a verdict on every path.
func (f filter) on(number uint32, body ...unix.SockFilter) filter {
	f = append(f, unless(unix.BPF_JEQ, number, len(body)))
	return append(f, body...)
}

// span adds a block that allows the system calls from low to high.
func (f filter) span(low, high uint32) filter {
	if low == high {
		return f.on(low, verdict(allow))
	}
	// Two comparisons: at least low, and not above high.
	return append(f,
		unless(unix.BPF_JGE, low, 2),
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K, Jt: 1, K: high},
		verdict(allow))
}

// oneOf is a body that allows a call if argument i is one of the values, and denies it otherwise.
func oneOf(i uint32, values ...uint32) []unix.SockFilter {
	body := []unix.SockFilter{arg(i)}
	for _, v := range values {
		body = append(body, unless(unix.BPF_JEQ, v, 1), verdict(allow))
	}
	return append(body, verdict(deny))
}
