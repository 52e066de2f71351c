# stdin: "3 4\n"
# stdout: "7\n"
out = open(1, "w")
out.write("%d\n" % sum(map(int, input().split())))
