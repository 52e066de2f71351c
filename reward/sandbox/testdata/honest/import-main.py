# stdin: "3 4\n"
# stdout: "7\n"
import __main__
value = sum(map(int, input().split()))
print(__main__.value)
