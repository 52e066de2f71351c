# stdin: "3 4\n"
# stdout: "7\n"
import atexit
a, b = map(int, input().split())
atexit.register(print, a + b)
