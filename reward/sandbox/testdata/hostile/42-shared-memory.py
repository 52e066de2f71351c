# want: RTE
# stdout: ""
import ctypes, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
for name, args in (("shmget", (1, 4096, 0o1666)), ("semget", (1, 1, 0o1666)), ("msgget", (1, 0o1666))):
    if getattr(libc, name)(*args) != -1:
        print("allowed", name)
try:
    from multiprocessing import shared_memory
    shared_memory.SharedMemory("canary", True, 4096)
    print("allowed shm_open")
except (ImportError, OSError):
    pass
import multiprocessing
multiprocessing.Process(target=print).start()
