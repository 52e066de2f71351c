# want: OK
# stdout: "answer\n"
import os, time
for _ in range(200):
    try:
        if os.fork() == 0:
            os.setsid()
            time.sleep(1000)
    except OSError:
        pass
print("answer")
