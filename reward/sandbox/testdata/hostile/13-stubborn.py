# want: TLE
import signal
for number in (signal.SIGXCPU, signal.SIGALRM, signal.SIGTERM, signal.SIGINT, signal.SIGVTALRM, signal.SIGPROF):
    signal.signal(number, lambda *a: None)
signal.alarm(0)
while True:
    try:
        while True:
            pass
    except:
        pass
