# want: MLE
# memory: 64
held = []
while True:
    held.append(bytearray(1 << 20))
