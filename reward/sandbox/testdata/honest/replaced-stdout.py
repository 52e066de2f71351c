# stdout: "42\n"
import io, sys
sys.stdout = io.StringIO()
print(42)
sys.__stdout__.write(sys.stdout.getvalue())
