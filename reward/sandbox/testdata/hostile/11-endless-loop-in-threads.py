# want: TLE
import hashlib, threading
def work():
    while True:
        hashlib.sha256(bytes(1 << 20)).digest()
for _ in range(4):
    threading.Thread(target=work).start()
