# want: RTE
# stdout: ""
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
def map(flags, fd=-1):
    ctypes.set_errno(0)
    if libc.mmap(None, ctypes.c_size_t(1 << 21), 3, flags, fd, ctypes.c_long(0)) != 2 ** 64 - 1 or ctypes.get_errno() != 1:
        print("allowed", hex(flags))
map(0x21)  # parts that are unmapped stay, and are in no process
map(0x23)
map(0x40022)  # large pages are counted nowhere
try:
    map(0x01, os.open("/dev/zero", os.O_RDONLY))
except OSError:
    pass
raise PermissionError("denied")
