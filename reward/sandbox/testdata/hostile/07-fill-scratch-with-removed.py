# want: RTE
# output: 2000000
import os
held = []
while True:
    held.append(open("f", "wb"))
    os.remove("f")
    held[-1].write(bytes(1 << 20))
