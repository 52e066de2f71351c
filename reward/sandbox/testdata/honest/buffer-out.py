# stdin: "3 4\n"
# stdout: "7\n"
import sys
a, b = map(int, sys.stdin.buffer.readline().split())
sys.stdout.buffer.write(b"%d\n" % (a + b))
