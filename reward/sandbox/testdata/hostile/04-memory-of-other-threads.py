# want: MLE
# memory: 64
# stdout: ""
import ctypes, os, threading, time
def hold():
    held = b"x" * (200 << 20)
    time.sleep(1)
    print("held", flush=True)
threading.Thread(target=hold).start()
ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)
