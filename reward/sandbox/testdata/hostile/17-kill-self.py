# want: RTE
import os, signal
os.kill(os.getpid(), signal.SIGKILL)
