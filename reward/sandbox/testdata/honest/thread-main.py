# stdin: "3 4\n"
# stdout: "7\n"
import sys, threading
sys.setrecursionlimit(10**6)
threading.stack_size(1 << 28)
def main():
    def down(n):
        return 0 if n == 0 else 1 + down(n - 1)
    assert down(30000) == 30000
    print(sum(map(int, input().split())))
threading.Thread(target=main).start()
