package jail

import "golang.org/x/sys/unix"

const (
	auditArch  = unix.AUDIT_ARCH_AARCH64
	sysFstatat = unix.SYS_FSTATAT
	// foreignCalls is above every number: there is one interface only.
	foreignCalls = 0xffffffff
)

// archCalls are older forms of the calls that every architecture has.
var archCalls = []uint32{unix.SYS_GETRLIMIT}

// forkCalls make a process; setLimitCall is the older way to set a limit.
var forkCalls []uint32

const setLimitCall = unix.SYS_SETRLIMIT

// openCalls open a file; with each comes which argument has the flags.
var openCalls = [][2]uint32{{unix.SYS_OPENAT, 2}}
