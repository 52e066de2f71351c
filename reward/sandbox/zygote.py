"""What runs inside a cell: a process that has everything imported and forks once per test.

The zygote itself never runs, parses or even reads what a program brings along; its child does, under
the limits and the second filter. The child learns nothing of the right answer, and the only things it
can say are the bytes of its output file, of its result file, and how it ended. It follows program.py in
one and the same module. Standard library only, Python 3.8 or later.
"""
import array
import base64
import ctypes
import gc
import resource
import signal
import socket
import struct

CONTROL = 3
RESULT = CONTROL  # in the child, which has closed the other

# One request: processor seconds, size of a file, address space (0 for no limit). The descriptors
# that come with it are the request, progress, standard input, output and error, and for a call the
# result.
REQUEST = struct.Struct("=qqq")
# One answer: wait status, processor time in microseconds, peak memory in KiB, and whether something
# is left behind, so that the cell must not be used again.
DONE = struct.Struct("=cIqqB")


class Filter:
    """The system call filter of a test, installed through the C library that Python runs on."""

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]

    def __init__(self, program, pids):
        self.program = bytearray(program)
        self.pids = pids
        buffer = (ctypes.c_char * len(self.program)).from_buffer(self.program)
        self.header = self.Program(len(self.program) // 8, ctypes.addressof(buffer))
        self.buffer = buffer
        self.prctl = ctypes.CDLL(None, use_errno=True).prctl
        self.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4

    def call(self, option, first, second=0):
        if self.prctl(option, first, second, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl %d" % option)

    def not_dumpable(self):
        self.call(4, 0)

    def die_with_parent(self):
        self.call(1, signal.SIGKILL)

    def install(self):
        for at in self.pids:
            struct.pack_into("=I", self.program, at, os.getpid())
        self.call(22, 2, ctypes.addressof(self.header))


def read_request(fd):
    data, size = b"", os.fstat(fd).st_size
    while len(data) < size:
        data += os.pread(fd, size - len(data), len(data))
    return read_parts(data)


# fork of the C library, with the interpreter lock held. That of Python prepares for threads which here
# do not exist, and touches so many pages by it that a test takes half as long again.
fork = ctypes.PyDLL(None, use_errno=True).fork
fork.argtypes = []


def limit(kind, value, extra=0):
    resource.setrlimit(kind, (value, value + extra))


def test(request, fds):
    """Runs in the child, from fork to exit. How far it gets is written to a file of its own that is
    closed before the program starts: the socket belongs to the zygote alone."""
    os.close(CONTROL)
    program, progress = fds[0], fds[1]
    try:
        if not CONFIG["alone"]:
            FILTER.die_with_parent()
        cpu, size, space = REQUEST.unpack(request)
        for target in (0, 1, 2):
            os.dup2(fds[2 + target], target)
        limit(resource.RLIMIT_CPU, cpu, 1)
        limit(resource.RLIMIT_FSIZE, size)
        if space:
            limit(resource.RLIMIT_AS, space)
        FILTER.install()
        source, call, args = read_request(program)
    except BaseException as problem:
        os.write(progress, b"X" + repr(problem).encode())
        leave(255)
    try:
        code = compile(source, FILE_NAME, "exec", dont_inherit=True)
    except BaseException as problem:
        os.write(progress, b"C" + compile_error(problem).encode("utf-8", "replace"))
        leave(255)
    os.write(progress, b"S")
    if call:
        os.dup2(fds[5], RESULT)
    os.closerange(RESULT + bool(call), 256)
    gc.enable()
    run(code, source, call, args, RESULT)


def scratch_state():
    return os.stat(CONFIG["scratch"]).st_mtime_ns if CONFIG["scratch"] else 0


def sweep(clean):
    """Ends whatever the test left running, and tells whether it left anything at all."""
    left = False
    if CONFIG["alone"]:
        try:
            os.kill(-1, signal.SIGKILL)
            left = True
        except ProcessLookupError:
            pass
        try:
            while True:
                os.waitpid(-1, 0)
        except ChildProcessError:
            pass
    return left or scratch_state() != clean


def serve():
    clean = scratch_state()
    space = socket.CMSG_SPACE(6 * 4)
    control.send(b"R")
    while True:
        request, ancillary, _, _ = control.recvmsg(REQUEST.size, space)
        if not request:
            leave(0)
        fds = array.array("i", ancillary[0][2])
        pid = fork()
        if pid < 0:
            raise OSError(ctypes.get_errno(), "fork")
        if pid == 0:
            try:
                test(request, fds)
            finally:
                leave(255)
        for fd in fds:
            os.close(fd)
        _, status, usage = os.wait4(pid, 0)
        cpu = round((usage.ru_utime + usage.ru_stime) * 1e6)
        control.send(DONE.pack(b"D", status, cpu, usage.ru_maxrss, sweep(clean)))


threading.stack_size(64 << 20)  # the default would be that of the main thread, which is huge
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
FILTER = Filter(base64.b64decode(CONFIG["filter"]), CONFIG["pids"])
FILTER.not_dumpable()
control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, fileno=CONTROL)
gc.collect()
gc.disable()
gc.freeze()
serve()
