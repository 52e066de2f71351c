# want: OK
# any: bytes
import sys
sys.stdout.buffer.write(bytes(range(256)) + b"\x1b[2J\xed\xa0\x80")
