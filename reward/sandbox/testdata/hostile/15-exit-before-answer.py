# want: OK
# stdout: ""
import sys
sys.exit(0)
print("answer")
