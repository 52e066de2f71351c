# want: RTE
# output: 2000000
for i in range(33):
    with open("f%d" % i, "wb") as f:
        f.write(bytes(1 << 20))
