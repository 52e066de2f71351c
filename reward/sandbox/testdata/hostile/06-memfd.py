# want: RTE
# memory: 64
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
fd = libc.memfd_create(b"hidden", 0)
if fd < 0:
    raise OSError(ctypes.get_errno(), "memfd_create")
while True:
    os.write(fd, bytes(1 << 20))
