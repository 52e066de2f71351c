# want: RTE
# stdout: ""
import os
for path in ("/etc/passwd", "/etc/shadow", "/root", "/home", "/", "/var/log", "/sys", "/work"):
    try:
        print(path, os.listdir(path) if os.path.isdir(path) else open(path).read())
    except OSError:
        pass
open("/etc/passwd")
