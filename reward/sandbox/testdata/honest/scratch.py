# stdin: "3 4\n"
# stdout: "7\n"
import os
with open("notes.txt", "w") as f:
    f.write(input())
os.mkdir("d")
os.rename("notes.txt", "d/notes.txt")
with open("d/notes.txt", "r+") as f:
    numbers = f.read().split()
    f.truncate(0)
assert os.listdir() == ["d"] and os.path.getsize("d/notes.txt") == 0
os.remove("d/notes.txt")
os.rmdir("d")
print(sum(map(int, numbers)))
