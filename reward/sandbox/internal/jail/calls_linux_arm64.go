package jail

import "golang.org/x/sys/unix"

const (
	auditArch  = unix.AUDIT_ARCH_AARCH64
	sysFstatat = unix.SYS_FSTATAT
	// foreignCalls is above every system call number: there is no second ABI.
	foreignCalls = 0xffffffff
)

// archCalls are calls that not every architecture has, most of them older forms of those in calls.
var archCalls = []uint32{unix.SYS_GETRLIMIT}

// forkCalls make a process; setLimitCall is the older way to set a limit.
var forkCalls []uint32

const setLimitCall = unix.SYS_SETRLIMIT

// openCalls are the calls that open a file, each with the index of its flags argument.
var openCalls = [][2]uint32{{unix.SYS_OPENAT, 2}}
