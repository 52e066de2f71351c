# stdin: "3 4\n"
# stdout: "7\n"
import os
os.write(1, b"%d\n" % sum(map(int, os.read(0, 10**6).split())))
