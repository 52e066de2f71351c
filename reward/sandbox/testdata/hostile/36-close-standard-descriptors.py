# want: OK
# stdout: ""
import os
for fd in (0, 1, 2):
    os.close(fd)
print("lost")
