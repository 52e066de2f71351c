# stdin: "3 4\n"
# stdout: "7\n"
import signal, time
def ring(*args):
    print(sum(map(int, input().split())))
signal.signal(signal.SIGALRM, ring)
signal.setitimer(signal.ITIMER_REAL, 0.01)
time.sleep(0.05)
