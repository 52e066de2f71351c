package jail

import "golang.org/x/sys/unix"

const (
	auditArch  = unix.AUDIT_ARCH_X86_64
	sysFstatat = unix.SYS_NEWFSTATAT
	// foreignCalls is where the system call numbers of the x32 ABI begin.
	foreignCalls = 0x40000000
)

// archCalls are calls that not every architecture has, most of them older forms of those in calls.
var archCalls = []uint32{
	unix.SYS_OPEN, unix.SYS_STAT, unix.SYS_LSTAT, unix.SYS_ACCESS, unix.SYS_PIPE, unix.SYS_SELECT, unix.SYS_POLL,
	unix.SYS_DUP2, unix.SYS_MKDIR, unix.SYS_RMDIR, unix.SYS_UNLINK, unix.SYS_RENAME, unix.SYS_LINK, unix.SYS_SYMLINK,
	unix.SYS_READLINK, unix.SYS_GETDENTS, unix.SYS_CREAT, unix.SYS_TIME, unix.SYS_ALARM, unix.SYS_PAUSE,
	unix.SYS_EPOLL_CREATE, unix.SYS_EPOLL_WAIT, unix.SYS_EVENTFD, unix.SYS_GETPGRP, unix.SYS_ARCH_PRCTL,
	unix.SYS_GETRLIMIT,
}

// forkCalls make a process; setLimitCall is the older way to set a limit.
var forkCalls = []uint32{unix.SYS_FORK, unix.SYS_VFORK}

const setLimitCall = unix.SYS_SETRLIMIT

// openCalls are the calls that open a file, each with the index of its flags argument.
var openCalls = [][2]uint32{{unix.SYS_OPENAT, 2}, {unix.SYS_OPEN, 1}}
