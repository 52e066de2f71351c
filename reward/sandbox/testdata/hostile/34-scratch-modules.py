# want: OK
# stdout: ""
import os
for name in ("random.py", "sitecustomize.py", "solution.py", "json.py"):
    open(name, "w").write("print('poison')")
