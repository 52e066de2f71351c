# want: RTE
# stdout: ""
import fcntl, os
try:
    fcntl.ioctl(0, 0x5412, b"x")
    print("TIOCSTI")
except OSError:
    pass
try:
    print(open("/dev/tty"))
except OSError:
    pass
os.nice(-5)
