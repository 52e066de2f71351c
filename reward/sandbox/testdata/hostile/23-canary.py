# want: RTE
# stdout: ""
# stdin: canary
import os
path = input()
for what in (lambda: open(path).read(), lambda: open(path, "a").write("x"), lambda: os.remove(path), lambda: os.rename(path, path + "2"),
             lambda: os.chmod(path, 0), lambda: os.utime(path, (0, 0)), lambda: os.truncate(path, 0), lambda: os.link(path, "here"),
             lambda: os.mkdir(path + "3"), lambda: os.symlink("x", path + "4"), lambda: os.setxattr(path, "user.x", b"y"),
             lambda: os.chown(path, os.getuid(), os.getgid())):
    try:
        what()
        print("reached")
    except OSError:
        pass
open(path)
