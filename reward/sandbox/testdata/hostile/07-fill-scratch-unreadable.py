# want: RTE
# output: 2000000
import os
os.mkdir("d", 0o300)
for i in range(10**6):
    with open("d/f%d" % i, "wb") as f:
        f.write(bytes(1 << 20))
