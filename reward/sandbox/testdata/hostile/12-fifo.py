# want: RTE TLE
import os
os.mkfifo("pipe")
open("pipe").read()
