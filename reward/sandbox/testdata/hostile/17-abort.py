# want: RTE
# signal: 6
import os
os.abort()
