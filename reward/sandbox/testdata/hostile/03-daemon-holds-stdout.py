# want: OK
# stdout: "answer\n"
import ctypes, os, time
libc = ctypes.CDLL(None)
for way in (os.fork, libc.fork, libc.vfork, lambda: libc.syscall(57), lambda: libc.syscall(435, 0, 0)):
    try:
        if way() == 0:
            if way() == 0:
                time.sleep(1000)
            os._exit(0)
    except OSError:
        pass
print("answer")
