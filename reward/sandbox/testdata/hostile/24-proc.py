# want: RTE
# stdout: ""
import os
for name in ("environ", "cmdline", "mem", "maps", "status", "root", "cwd", "fd"):
    for pid in ("self", "1", str(os.getppid())):
        path = "/proc/%s/%s" % (pid, name)
        if path == "/proc/self/cwd":
            continue  # its own scratch directory, by another name
        try:
            print(path, os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(1))
        except OSError:
            pass
open("/proc/self/environ")
