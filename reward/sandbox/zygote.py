"""The zygote of a cell: a process with everything imported that forks once per test.

The zygote never runs, parses or even reads any part of a program; its child does, under the limits and
the second filter. The child knows nothing of the right answer. All that comes out of it are the bytes of
its output and result files, and how it ended. This file is appended to program.py to make one module. It
uses the standard library only, Python 3.8 or later. It imports _socket and _signal, because socket and signal
turn their constants into enums, which takes a tenth as long as all other imports together.
"""
import _signal
import _socket
import array
import binascii
import ctypes
import resource
import struct

CONTROL = 3
RESULT = CONTROL  # in the child, which has closed the control socket

# A request: processor seconds, file size, address space (0 for no limit), and whether /proc hides processes (hidepid). If it does,
# the test stays dumpable, so that it can be seen, and its process id is reported. The request comes with the descriptors of the
# request file, of standard input, output and error, and for a call of the result file.
REQUEST = struct.Struct("=qqq?")
BEGUN = struct.Struct("=ci")  # the process id of the test
# An answer: wait status, processor time in microseconds, peak memory in KiB, and whether the test left
# something behind, so that the cell must not be used again.
DONE = struct.Struct("=cIqqB")
SPACE = _socket.CMSG_SPACE(5 * 4)  # for the descriptors

# The C library of this process, called with the interpreter lock held: there are no other threads.
# Every page that a child touches first has to be copied, so its calls are prepared before the fork.
LIBC = ctypes.PyDLL(None)
fork = LIBC.fork  # os.fork also prepares for threads, which makes a test take half as long again


def prctl(option, first, second=0):
    """A function without arguments that calls prctl."""
    arguments = ctypes.c_int(option), ctypes.c_ulong(first), ctypes.c_ulong(second), ctypes.c_ulong(0), ctypes.c_ulong(0)

    def call():
        if LIBC.prctl(*arguments) != 0:
            raise OSError("prctl %d failed" % option)
    return call


class Program(ctypes.Structure):
    """struct sock_fprog: a seccomp filter."""
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]


FILTER = bytearray(binascii.a2b_base64(CONFIG["filter"]))
FILTER_BYTES = (ctypes.c_char * len(FILTER)).from_buffer(FILTER)
FILTER_PIDS = [ctypes.c_uint32.from_buffer(FILTER, at) for at in CONFIG["pids"]]
PROGRAM = Program(len(FILTER) // 8, ctypes.addressof(FILTER_BYTES))
set_filter = prctl(22, 2, ctypes.addressof(PROGRAM))
not_dumpable = prctl(4, 0)
dumpable = prctl(4, 1)
die_with_parent = prctl(1, _signal.SIGKILL)
ZYGOTE = os.getpid()


def install_filter():
    pid = os.getpid()
    for place in FILTER_PIDS:
        place.value = pid
    set_filter()


def read_request(fd):
    """Reads the request and empties its file, which from then on shows how far the test has got."""
    data, size = b"", os.fstat(fd).st_size
    while len(data) < size:
        data += os.pread(fd, size - len(data), len(data))
    os.ftruncate(fd, 0)
    return read_parts(data)


def limit(kind, value, extra=0):
    resource.setrlimit(kind, (value, value + extra))


def test(request, fds):
    """Runs in the child, from fork to exit. Its progress is written to the request file, which is closed
    before the program starts. The control socket belongs to the zygote alone."""
    os.close(CONTROL)
    try:
        if not CONFIG["alone"]:
            die_with_parent()
            if os.getppid() != ZYGOTE:  # it died before prctl took effect
                leave(255)
        cpu, size, space, seen = REQUEST.unpack(request)
        if seen:
            dumpable()
        for target in (0, 1, 2):
            os.dup2(fds[1 + target], target)
        limit(resource.RLIMIT_CPU, cpu, 1)
        limit(resource.RLIMIT_FSIZE, size)
        if space:
            limit(resource.RLIMIT_AS, space)
        install_filter()
        source, call, args = read_request(fds[0])
    except BaseException as problem:
        os.pwrite(fds[0], b"X" + repr(problem).encode(), 0)
        leave(255)
    code = compiled(source, fds[0])
    if call:
        os.dup2(fds[4], RESULT)
    os.closerange(RESULT + bool(call), 256)
    run(code, source, call, args, RESULT)


def scratch_state():
    """A value that changes with every file made in the scratch directory, the zygote's working directory.
    A program cannot restore it."""
    return os.stat(".").st_mtime_ns


def sweep(clean):
    """Kills every process that the test has left, and tells whether it left anything at all."""
    left = False
    if CONFIG["alone"]:
        try:
            os.kill(-1, _signal.SIGKILL)
            left = True
        except ProcessLookupError:
            pass
        try:
            while True:
                os.waitpid(-1, 0)
        except ChildProcessError:
            pass
    return left or scratch_state() != clean


def serve_one(clean):
    """Receives a request, runs it in a child, and reports when that has ended."""
    request, ancillary, _, _ = control.recvmsg(REQUEST.size, SPACE)
    if not request:
        leave(0)
    fds = array.array("i", ancillary[0][2])
    pid = fork()
    if pid < 0:
        raise OSError("fork failed")
    if pid == 0:
        try:
            test(request, fds)
        finally:
            leave(255)
    for fd in fds:
        os.close(fd)
    if REQUEST.unpack(request)[3]:
        control.send(BEGUN.pack(b"B", pid))
    _, status, usage = os.wait4(pid, 0)
    cpu = round((usage.ru_utime + usage.ru_stime) * 1e6)
    control.send(DONE.pack(b"D", status, cpu, usage.ru_maxrss, sweep(clean)))


def serve():
    clean = scratch_state()
    control.send(b"R")
    while True:
        serve_one(clean)


threading.stack_size(64 << 20)  # the default is the stack limit of the main thread, which is huge
_signal.signal(_signal.SIGXFSZ, _signal.SIG_DFL)
not_dumpable()
control = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, CONTROL)
gc.freeze()
serve()
