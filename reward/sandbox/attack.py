"""Attacks the cell that it runs in, and prints a line of JSON for each attack: its name, whether the
cell held, and what the attacker saw."""
import ctypes
import json
import os
import socket
import subprocess
import sys

libc = ctypes.CDLL(None, use_errno=True)


def system_call(name, *args):
    """Calls a function of the C library and raises its error, if any."""
    if getattr(libc, name)(*args) == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def new_process():
    if os.fork() == 0:
        os._exit(0)
    os.wait()
    return "made a process"


def new_program():
    return "ran a program: %r" % subprocess.run([sys.executable, "-c", "pass"])


def network():
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    return "made a socket: %r" % s


def local_sockets():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    return "made a socket: %r" % s


def other_processes():
    os.kill(os.getppid(), 0)
    return "may send signals to process %d" % os.getppid()


def process_list():
    return "sees %d entries of /proc" % len(os.listdir("/proc"))


def host_files():
    seen = []
    for path in ("/etc/passwd", "/etc/hostname", "/root", "/home", "/", "..", "/var", os.path.expanduser("~") + "/../etc/shadow"):
        try:
            seen.append(path if os.path.isdir(path) and os.listdir(path) is not None else open(path).name)
        except OSError as denied:
            error = denied
    if not seen:
        raise error
    return "reads " + ", ".join(seen)


def interpreter_files():
    with open(os.__file__, "r+b"):
        return "may write to " + os.__file__


def environment():
    left = sorted(set(os.environ) - set(EXPECTED))
    if not left:
        raise OSError(0, "only what every program gets")
    return "sees " + ", ".join(left)


def descriptors():
    seen = []
    for fd in range(3, 1024):
        try:
            os.fstat(fd)
            seen.append(fd)
        except OSError as closed:
            error = closed
    if not seen:
        raise error
    return "holds descriptors %s" % seen


def privileges():
    won = []
    for name, args in (("unshare", (0x10000000,)), ("mount", (b"none", b"/tmp", b"tmpfs", 0, None)),
                       ("chroot", (b"/tmp",)), ("setuid", (0,)), ("ptrace", (16, os.getppid(), 0, 0))):
        try:
            system_call(name, *args)
            won.append(name)
        except OSError as denied:
            error = denied
    if not won:
        raise error
    return "may " + ", ".join(won)


def shared_memory():
    system_call("shmget", 0, 4096, 0o1600)
    return "shares memory with other processes"


EXPECTED = sys.stdin.read().split()
for attempt in (new_process, new_program, network, local_sockets, other_processes, process_list, host_files,
                interpreter_files, environment, descriptors, privileges, shared_memory):
    try:
        holds, detail = False, attempt()
    except Exception as denied:
        holds, detail = True, "%s: %s" % (type(denied).__name__, denied)
    print(json.dumps({"name": attempt.__name__.replace("_", " "), "holds": holds, "detail": detail}))
