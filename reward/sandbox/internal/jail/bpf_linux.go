//go:build linux && (amd64 || arm64)

package jail

import "golang.org/x/sys/unix"

// A filter is a seccomp program in the kernel's classic BPF, written as a list of blocks. Each block
// looks at one system call and, where it is the one, ends in a verdict; everything else falls
// through to the next block.
type filter []unix.SockFilter

const (
	allow = unix.SECCOMP_RET_ALLOW
	deny  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	// absent makes the C library try an older way that can be told apart by its arguments.
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

// unless skips n instructions where the comparison of the loaded word with k fails.
func unless(comparison uint16, k uint32, n int) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | comparison | unix.BPF_K, Jf: uint8(n), K: k}
}

// arg loads the low half of argument i. The checks below are on values that fit it; a program that
// sets the high half of an int argument only confuses itself, as the kernel cuts it off too.
func arg(i uint32) unix.SockFilter { return load(offArgs + 8*i) }

// argHigh loads the high half of argument i.
func argHigh(i uint32) unix.SockFilter { return load(offArgs + 8*i + 4) }

// on judges one system call by the given instructions, which must end in a verdict on every path.
func (f filter) on(number uint32, body ...unix.SockFilter) filter {
	f = append(f, unless(unix.BPF_JEQ, number, len(body)))
	return append(f, body...)
}

// span allows the system calls from low to high.
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

// oneOf allows where argument i is one of the values, and denies elsewhere.
func oneOf(i uint32, values ...uint32) []unix.SockFilter {
	body := []unix.SockFilter{arg(i)}
	for _, v := range values {
		body = append(body, unless(unix.BPF_JEQ, v, 1), verdict(allow))
	}
	return append(body, verdict(deny))
}
