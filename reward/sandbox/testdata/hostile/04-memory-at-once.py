# want: MLE RTE
# memory: 64
held = bytearray(3 << 30)
for i in range(0, len(held), 4096):
    held[i] = 1
