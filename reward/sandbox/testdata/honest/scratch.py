# stdin: "3 4\n"
# stdout: "7\n"
import os
try:
    with open("notes.txt", "w") as f:
        f.write(input())
    with open("notes.txt") as f:
        print(sum(map(int, f.read().split())))
except PermissionError:
    print(sum(map(int, input().split())))
