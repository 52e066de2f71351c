# want: RTE
# stdout: ""
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
with open("f", "wb") as f:
    os.remove("f")
    if libc.fallocate(f.fileno(), 1, ctypes.c_long(0), ctypes.c_long(64 << 20)) == 0:  # its size stays 0, which limits of size allow
        print("allowed", os.fstat(f.fileno()).st_blocks)
raise PermissionError("denied")
