# want: OK
# stdout: ""
import os
for fd in range(3, 4096):
    try:
        os.write(fd, b"D" * 22)
        print("wrote to", fd)
    except OSError:
        pass
    try:
        os.fstat(fd)
        print("found", fd)
    except OSError:
        pass
