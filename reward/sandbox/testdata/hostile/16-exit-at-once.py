# want: OK
# stdout: ""
import os
os._exit(0)
