# stdin: "3 4\n"
# stdout: "7\n"
print(sum(map(int, open(0).read().split())))
