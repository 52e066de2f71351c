# want: RTE
for i in range(10**6):
    open("f%d" % i, "w").close()
