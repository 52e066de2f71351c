# want: OK
# stdout: "PASSED\n"
import os, struct
frame = struct.pack("=cIqqB", b"D", 0, 0, 0, 0)
for fd in range(3, 64):
    try:
        os.write(fd, frame)
    except OSError:
        pass
print("PASSED")
