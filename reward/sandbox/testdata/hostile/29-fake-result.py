# want: OK
# call: solve
# value: 
import os
os.write(3, b'"forged"\n"twice"')
def solve(x):
    os._exit(0)
