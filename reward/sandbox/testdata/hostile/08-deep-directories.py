# want: RTE
# cpu: 2000
import os
while True:
    os.mkdir("d")
    os.chdir("d")
