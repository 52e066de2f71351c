# want: RTE
# stdout: ""
import os, signal
for target in (1, -1, os.getppid(), 0):
    for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, 0):
        try:
            os.kill(target, number)
        except OSError:
            pass
        else:
            print("reached", target, number)
os.kill(1, signal.SIGKILL)
