# want: RTE
# stdout: ""
NUMBERS = {"ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "kcmp": (312, 272), "process_madvise": (440, 440), "pidfd_send_signal": (424, 424), "rt_sigqueueinfo": (129, 138), "sched_setaffinity": (203, 122), "setpriority": (141, 140), "move_pages": (279, 239)}
import ctypes, os, platform
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    number = NUMBERS[name][platform.machine() != "x86_64"]
    if number is None:
        return
    ctypes.set_errno(0)
    if libc.syscall(number, *args) != -1:
        print("allowed", name)
call("ptrace", 16, os.getppid(), 0, 0)
call("process_vm_readv", os.getppid(), 0, 0, 0, 0, 0)
call("process_vm_writev", os.getppid(), 0, 0, 0, 0, 0)
call("pidfd_open", os.getppid(), 0)
call("pidfd_getfd", 0, 0, 0)
call("kcmp", os.getpid(), os.getppid(), 0, 0, 0)
call("process_madvise", 0, 0, 0, 0, 0)
call("pidfd_send_signal", 0, 0, 0, 0)
call("rt_sigqueueinfo", os.getppid(), 0, 0)
call("sched_setaffinity", os.getppid(), 0, 0)
call("setpriority", 0, os.getppid(), 19)
call("move_pages", os.getppid(), 0, 0, 0, 0, 0)
raise PermissionError("denied")
