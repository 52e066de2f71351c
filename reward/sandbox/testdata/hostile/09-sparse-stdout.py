# want: OLE RTE
# output: 65536
import os
os.ftruncate(1, 1 << 40)
