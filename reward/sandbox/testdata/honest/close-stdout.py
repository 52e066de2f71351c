# stdin: "3 4\n"
# stdout: "7\n"
import sys
print(sum(map(int, input().split())))
sys.stdout.close()
