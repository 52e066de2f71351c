# want: RTE
# memory: 64
import os
for _ in range(8):
    os.fork()
held = bytearray(256 << 20)
