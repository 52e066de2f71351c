# stdin: "3 4\n"
# stdout: "7\n"
total = 0
def add(n):
    global total
    total += n
for x in input().split():
    add(int(x))
print(total)
