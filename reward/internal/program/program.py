"""Runs one program inside its own process, as the interpreter itself would run it.

Nothing here decides whether an answer is right, and nothing here is a secret: the program can read
and change all of it, and gains no more by that than by printing something else. CONFIG, a dict with the
trusted source to "preload" and the module "path", is defined before this file; the code that sets up and
limits the process is appended to it. The interpreter runs with -S, because installed packages may run code
of their own whenever an interpreter starts, which can take longer than the rest of the start. The garbage
collector is off until the program runs: imported objects stay, and to scan them takes a tenth of the start.
"""
import gc
gc.disable()
import atexit
import io
import json
import linecache
import os
import random
import site
import sys
import threading
import time
import traceback
import types

FILE_NAME = "solution.py"
leave = os._exit  # programs replace the one in os
STREAMS = []  # the standard streams: a program may write to them and then replace them, and gc may not track them
IO_BASE = io.IOBase.__mro__[1]  # the concrete base class of all streams: issubclass skips the checks of an abstract class


def preamble(preload):
    """The names that programs may use without importing them, as with the graders of public data sets: the
    modules that people forget to import, and their contents."""
    names = {}
    for module in ("string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random",
                   "statistics", "itertools", "functools", "operator", "io", "sys", "json", "typing"):
        exec("from %s import *" % module, names)
    import builtins
    for name in dir(builtins):
        names.pop(name, None)  # built-in names win: pow is not math.pow
    for module in ("string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random",
                   "statistics", "itertools", "functools", "operator", "io", "sys", "json", "builtins", "typing",
                   "array", "cmath", "contextlib", "dataclasses", "decimal", "enum", "fractions", "numbers",
                   "queue", "threading", "time", "types"):
        names[module] = __import__(module)
    names.pop("__builtins__", None)
    own = {"__name__": "preload", "__builtins__": builtins}
    if preload:
        own.update(names)
        exec(compile(preload, "preload.py", "exec", dont_inherit=True), own)
    return names, {k: v for k, v in own.items() if names.get(k) is not v and not k.startswith("__")}


def compiled(source, progress):
    """Compiles the program, and writes to the descriptor progress that it starts, or why it cannot."""
    try:
        code = compile(source, FILE_NAME, "exec", dont_inherit=True)
    except BaseException as problem:
        os.write(progress, b"C" + compile_error(problem).encode("utf-8", "replace"))
        leave(255)
    os.write(progress, b"S")
    return code


def run(code, source, call, args, result):
    """Runs the program and ends the process. The value of a call is written to the descriptor
    result."""
    gc.enable()
    args = [json.loads(a) for a in args]
    digits(50000)
    if call:
        MODULE.__name__ = "solution"
        sys.modules["solution"] = MODULE
    sys.modules["__main__"] = MODULE
    sys.argv = [FILE_NAME]
    status = 0
    try:
        exec(code, MODULE.__dict__)
        if call:
            answer(find(MODULE.__dict__, call)(*args), result)
    except SystemExit as exit:
        status = exit_status(exit.code)
    except BaseException:
        status = 1
        complain(source)
    finally:
        finish(status)


def open_streams(names):
    """Opens the standard streams as the interpreter does: strict UTF-8, and the buffering below. Their
    descriptors may be replaced by the files of a test afterwards, as long as nothing has been read or written."""
    for fd, name, mode, errors in ((0, "stdin", "r", "strict"), (1, "stdout", "w", "strict"),
                                   (2, "stderr", "w", "backslashreplace")):
        stream = open(fd, mode, encoding="utf-8", errors=errors, closefd=False, buffering=1 if fd == 2 else -1)
        setattr(sys, name, stream)
        setattr(sys, "__%s__" % name, stream)
        STREAMS.append(stream)
        names[name] = stream  # instead of the interpreter's, which "from sys import *" has put there


def find(names, call):
    """The function to call: a method of class Solution, or a function of the module. A name that only the
    preamble defines does not count."""
    solution = names.get("Solution")
    if isinstance(solution, type) and hasattr(solution, call):
        return getattr(solution(), call)
    if call not in names or (names[call] is PREAMBLE.get(call) and call not in PRELOADED):
        raise NameError("the program defines no function %r" % call)
    return names[call]


def plain(value):
    """Converts numbers and arrays of numpy to Python's own, and refuses other types that JSON lacks."""
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError("JSON cannot carry a value of type %s" % type(value).__name__)


def answer(value, result):
    """Writes the value to the result file, or nothing if JSON cannot represent it."""
    digits(0)
    try:
        text = json.dumps(value, default=plain, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as problem:
        print("the returned value is lost: %s" % problem, file=sys.stderr)
        return
    while text:
        text = text[os.write(result, text):]


def exit_status(code):
    """The exit status that sys.exit(code) gives a process."""
    if code is None:
        return 0
    if isinstance(code, int):
        return int(code) & 0xFF
    print(code, file=sys.stderr)
    return 1


def complain(source):
    """Prints the traceback of the program, without the frames of this file."""
    kind, value, trace = sys.exc_info()
    while trace is not None and trace.tb_frame.f_code.co_filename == run.__code__.co_filename:
        trace = trace.tb_next
    try:
        text = source.decode("utf-8", "replace")
        linecache.cache[FILE_NAME] = len(text), None, text.splitlines(True), FILE_NAME
        if sys.excepthook is sys.__excepthook__:
            traceback.print_exception(kind, value, trace)
        else:
            sys.excepthook(kind, value, trace)
    except BaseException:
        pass


def finish(status):
    """Exits as the interpreter does: waits for other threads, calls the atexit functions, flushes every
    open file. It only leaves out the teardown of modules."""
    try:
        if len(threading._active) > 1:
            threading._shutdown()
        atexit._run_exitfuncs()
    except BaseException:
        pass
    last = [getattr(sys, name, None) for name in ("stdout", "stderr")]
    for stream in last + STREAMS + [o for o in gc.get_objects() if issubclass(type(o), IO_BASE)]:
        try:
            stream.flush()
        except BaseException:
            pass  # closed by the program, for one
    leave(status)


def digits(n):
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(n)


def read_parts(data):
    """Splits a request into source, function name and arguments."""
    parts, at = [], 1  # the first byte marks a request that nobody has read
    while at < len(data):
        n = int.from_bytes(data[at:at + 8], "little")
        parts.append(data[at + 8:at + 8 + n])
        at += 8 + n
    return parts[0], parts[1].decode(), parts[2:]


def compile_error(problem):
    """The message about a program that cannot be compiled."""
    return "".join(traceback.format_exception_only(type(problem), problem))[-4000:]


sys.path[:] = CONFIG["path"]
site.setquit(), site.setcopyright(), site.sethelper()  # exit, help and the like, which -S leaves out
sys.setrecursionlimit(50000)
digits(0)  # inputs may hold integers of any size
random.seed(0)  # the same numbers in every run
PREAMBLE, PRELOADED = preamble(CONFIG["preload"])
# The module that the program becomes. It is filled before a fork: copying a dictionary touches every
# object in it, and after a fork every page that is touched must be copied.
MODULE = types.ModuleType("__main__")
MODULE.__dict__.update(PREAMBLE, **PRELOADED)
MODULE.__file__ = FILE_NAME
open_streams(MODULE.__dict__)
