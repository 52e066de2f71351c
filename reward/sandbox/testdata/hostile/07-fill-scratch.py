# want: RTE
# output: 65536
with open("big", "wb") as f:
    while True:
        f.write(bytes(1 << 20))
