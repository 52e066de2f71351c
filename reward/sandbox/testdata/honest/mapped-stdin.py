# stdin: "3 4\n"
# stdout: "7\n"
import mmap
with mmap.mmap(0, 0, access=mmap.ACCESS_READ) as m:
    print(sum(map(int, m[:].split())))
