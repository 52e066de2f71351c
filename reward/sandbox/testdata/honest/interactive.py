# stdin: "3 4\n"
# stdout: "7\n"
import sys
for line in sys.stdin:
    print(sum(map(int, line.split())), flush=True)
