# stdin: "3 4\n"
# stdout: "7\n"
import sys
def main():
    print(sum(map(int, input().split())))
sys.exit(main())
