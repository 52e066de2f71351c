# want: RTE
import os
while True:
    os.fork()
