# want: OLE
# output: 65536
while True:
    print("x" * 1000)
