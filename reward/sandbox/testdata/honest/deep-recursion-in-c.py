# stdin: "3 4\n"
# stdout: "7\n"
# cpu: 2000
# notfrom: 3.12
import sys
sys.setrecursionlimit(10**6)
x = []
for _ in range(15000):
    x = [x]
assert len(repr(x)) == 30002
print(sum(map(int, input().split())))
