# want: OK
# stdout: "alive\n"
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
pid = os.getpid()
libc.syscall(62, pid, 9)
libc.syscall(200, pid, 9)
libc.syscall(234, pid, pid, 9)
libc.raise_(9) if hasattr(libc, "raise_") else None
libc.prctl(1, 9, 0, 0, 0)
print("alive")
