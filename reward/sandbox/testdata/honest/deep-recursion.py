# stdin: "3 4\n"
# stdout: "7\n"
# cpu: 2000
import sys
sys.setrecursionlimit(300000)
def down(n):
    return 0 if n == 0 else 1 + down(n - 1)
assert down(100000) == 100000
print(sum(map(int, input().split())))
