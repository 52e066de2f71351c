# want: RTE
# cpu: 2000
import threading, time
for _ in range(1000):
    threading.Thread(target=time.sleep, args=(1,), daemon=True).start()
