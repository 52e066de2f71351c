# want: OLE TLE
# output: 65536
import os, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
while True:
    try:
        os.write(1, b"x" * 1000)
    except OSError:
        pass
