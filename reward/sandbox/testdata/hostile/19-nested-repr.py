# want: RTE TLE MLE
# memory: 256
import sys
sys.setrecursionlimit(10**9)
x = []
for _ in range(10**7):
    x = [x]
repr(x)
