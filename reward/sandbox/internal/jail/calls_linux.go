//go:build linux && (amd64 || arm64)

package jail

import "golang.org/x/sys/unix"

// calls are the system calls that a Python program may make with any arguments. All others are refused,
// including those that later kernels add. Left out on purpose: all that create or reach a process, a
// socket, a namespace, a key, a shared object or another process's memory; all that change the mode,
// owner, times or attributes of a file, which landlock does not govern; and file locks, through which two
// cells could communicate.
var calls = []uint32{
	// Files and directories; landlock and the read-only root restrict which.
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_PREAD64, unix.SYS_PWRITE64,
	unix.SYS_PREADV, unix.SYS_PWRITEV, unix.SYS_PREADV2, unix.SYS_PWRITEV2, unix.SYS_LSEEK, unix.SYS_CLOSE,
	unix.SYS_CLOSE_RANGE, unix.SYS_FSTAT, sysFstatat, unix.SYS_STATX, unix.SYS_OPENAT, unix.SYS_DUP,
	unix.SYS_DUP3, unix.SYS_PIPE2, unix.SYS_FTRUNCATE, unix.SYS_FSYNC, unix.SYS_FDATASYNC,
	unix.SYS_FADVISE64, unix.SYS_GETDENTS64, unix.SYS_GETCWD, unix.SYS_CHDIR, unix.SYS_FCHDIR, unix.SYS_MKDIRAT,
	unix.SYS_UNLINKAT, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_LINKAT, unix.SYS_SYMLINKAT, unix.SYS_READLINKAT,
	unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2, unix.SYS_SENDFILE, unix.SYS_COPY_FILE_RANGE, unix.SYS_UMASK,
	unix.SYS_STATFS, unix.SYS_FSTATFS,
	// Memory.
	unix.SYS_MUNMAP, unix.SYS_MPROTECT, unix.SYS_MREMAP, unix.SYS_MADVISE, unix.SYS_BRK,
	unix.SYS_MSYNC, unix.SYS_MEMBARRIER,
	// Its own threads and signals.
	unix.SYS_FUTEX, unix.SYS_SET_ROBUST_LIST, unix.SYS_SET_TID_ADDRESS, unix.SYS_RSEQ, unix.SYS_EXIT,
	unix.SYS_EXIT_GROUP, unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN,
	unix.SYS_RT_SIGPENDING, unix.SYS_RT_SIGTIMEDWAIT, unix.SYS_RT_SIGSUSPEND, unix.SYS_SIGALTSTACK,
	unix.SYS_RESTART_SYSCALL, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_SCHED_GETPARAM,
	unix.SYS_SCHED_GETSCHEDULER, unix.SYS_SCHED_GET_PRIORITY_MAX, unix.SYS_SCHED_GET_PRIORITY_MIN, unix.SYS_GETCPU,
	unix.SYS_WAIT4, unix.SYS_WAITID,
	// Process ids, users, resource usage, system information and clocks.
	unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_GETPPID, unix.SYS_GETPGID, unix.SYS_GETSID, unix.SYS_GETUID,
	unix.SYS_GETEUID, unix.SYS_GETGID, unix.SYS_GETEGID, unix.SYS_GETRESUID, unix.SYS_GETRESGID,
	unix.SYS_GETGROUPS, unix.SYS_GETPRIORITY, unix.SYS_GETRUSAGE, unix.SYS_TIMES, unix.SYS_UNAME, unix.SYS_SYSINFO,
	unix.SYS_GETRANDOM, unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_GETRES, unix.SYS_CLOCK_NANOSLEEP,
	unix.SYS_GETTIMEOFDAY, unix.SYS_NANOSLEEP, unix.SYS_SETITIMER, unix.SYS_GETITIMER,
	// Waiting for several descriptors, and using a socket pair (asyncio wakes itself through one).
	unix.SYS_PPOLL, unix.SYS_PSELECT6, unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT,
	unix.SYS_EPOLL_PWAIT2, unix.SYS_EVENTFD2, unix.SYS_RECVFROM, unix.SYS_SENDTO, unix.SYS_SHUTDOWN,
	unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME, unix.SYS_GETSOCKOPT,
}

// zygoteCalls are those that only the zygote needs. The filter of a test refuses or restricts them.
var zygoteCalls = []uint32{
	unix.SYS_EXECVE, unix.SYS_KILL, unix.SYS_TGKILL, unix.SYS_TKILL, unix.SYS_RECVMSG, unix.SYS_SENDMSG,
	unix.SYS_SETSID, unix.SYS_SECCOMP,
}
