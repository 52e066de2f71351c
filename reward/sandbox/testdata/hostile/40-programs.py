# want: RTE
# stdout: ""
import os, subprocess
for way in (lambda: subprocess.run(["/bin/sh", "-c", "id"]), lambda: os.execv("/bin/sh", ["sh"]), lambda: os.posix_spawn("/bin/su", ["su"], {}),
            lambda: os.system("id") and 1 / 0, lambda: os.popen("id").read()):
    try:
        print("ran", way())
    except (OSError, ZeroDivisionError):
        pass
import sys
os.execv(sys.executable, [sys.executable, "-c", "print('ran')"])
