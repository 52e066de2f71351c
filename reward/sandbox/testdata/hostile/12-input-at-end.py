# want: RTE
while True:
    input()
