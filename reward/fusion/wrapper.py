"""Runs one program on one input inside a Sandbox Fusion request, and reports in a file, the frame.

CONFIG is defined in the line before this file. The program runs in its own process with files as
standard streams. This process limits it, waits, and writes the report. It prints nothing of the
program's, because the server stops reading a long output. Standard library only.
"""
import json
import math
import os
import resource
import signal
import subprocess
import sys
import threading
import time

STACK = 512 << 20
THREADS = 2 << 30  # address space for the stacks of threads
TAIL = 4096
SPOILED = 3


def limit(kind, soft, hard):
    """Sets a limit, or the hard limit of the server if that is lower."""
    most = resource.getrlimit(kind)[1]
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    resource.setrlimit(kind, (soft, hard))


def limits():
    cpu = math.ceil(CONFIG["cpu"] * 1.125)  # the kernel counts ticks for it, some per cent too many; the verdict uses rusage
    limit(resource.RLIMIT_CPU, cpu, cpu + 1)
    limit(resource.RLIMIT_FSIZE, CONFIG["output"] + 1, CONFIG["output"] + 1)
    limit(resource.RLIMIT_DATA, CONFIG["memory"] + THREADS, CONFIG["memory"] + THREADS)
    limit(resource.RLIMIT_CORE, 0, 0)
    limit(resource.RLIMIT_STACK, STACK, STACK)


def kill(pid):
    try:
        os.killpg(pid, signal.SIGKILL)
    except OSError:
        pass


def waiting(pid):
    """Whether a thread of a process is runnable, and for how many seconds at most one was runnable without
    a processor. Without /proc a process counts as asleep all the time."""
    runnable, waited = False, 0
    try:
        for thread in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/stat" % (pid, thread), "rb") as f:
                runnable = runnable or f.read().rpartition(b")")[2].split()[0] == b"R"
            with open("/proc/%d/task/%s/schedstat" % (pid, thread)) as f:
                waited = max(waited, int(f.read().split()[1]))
    except (OSError, IndexError, ValueError):
        pass
    return runnable, waited / 1e9


def gone(pid):
    """Whether a process has ended, even if nobody has waited for it yet."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
    except ChildProcessError:
        return True


def guard(pid, ended, late):
    """Kills a program that sleeps too long. Time in which it was runnable without a processor does not count."""
    start, left = time.monotonic(), CONFIG["wall"]
    while not ended.wait(left):
        since = time.monotonic() - start
        runnable, waited = waiting(pid)
        left = max(CONFIG["wall"] - (since - waited), 0.01)
        if gone(pid):
            return
        if since > CONFIG["patience"] or not runnable and since - waited >= CONFIG["wall"]:
            late.append("busy" if since > CONFIG["patience"] and 2 * waited > since else "asleep")
            kill(pid)
            return


def run(out, value, err):
    environment = dict(CONFIG["environment"], HOME=os.getcwd(), TMPDIR=os.getcwd())
    with open("input", "rb") as stdin:
        process = subprocess.Popen(
            [sys.executable, "-s", "-B", "-S", "program.py", str(value.fileno()), json.dumps([p for p in sys.path if p])],
            stdin=stdin, stdout=out, stderr=err, pass_fds=[value.fileno()], env=environment,
            preexec_fn=limits, start_new_session=True)
    ended, late = threading.Event(), []
    guarding = threading.Thread(target=guard, args=(process.pid, ended, late))
    guarding.start()
    _, status, usage = os.wait4(process.pid, 0)
    ended.set()
    guarding.join()
    kill(process.pid)
    cpu = usage.ru_utime + usage.ru_stime
    if "busy" in late and cpu <= CONFIG["cpu"]:  # otherwise it has used up its time, however long that took
        raise TimeoutError("the program got no processor for most of %g seconds" % CONFIG["patience"])
    return {
        "exit": os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0,
        "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
        "cpu": cpu,
        "memory": usage.ru_maxrss * 1024,
        "late": len(late),
    }


def read(file, most, tail=False):
    """Reads through the descriptor: the program may have removed or replaced the file of that name."""
    size = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), most, max(0, size - most) if tail else 0)


def main():
    with open("stdout", "w+b") as out, open("value", "w+b") as value, open("stderr", "w+b") as err:
        frame = run(out, value, err)
        parts = [read(out, CONFIG["output"] + 1), read(value, CONFIG["output"] + 1), read(err, TAIL, True)]
    frame["sizes"] = [len(part) for part in parts]
    try:
        if os.path.lexists(CONFIG["frame"]):
            os.unlink(CONFIG["frame"])
        with open(CONFIG["frame"], "xb") as file:
            file.write(CONFIG["nonce"].encode() + b"\n" + json.dumps(frame).encode() + b"\n" + b"".join(parts))
    except (FileNotFoundError, FileExistsError, IsADirectoryError, PermissionError):
        sys.exit(SPOILED)  # the program has damaged the directory; other errors are failures of the machine


main()
