# want: OK
# stdout: "answer\n"
import sys
for _ in range(3000):
    sys.stderr.write("x" * 1000)
print("answer")
