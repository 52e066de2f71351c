"""An interpreter for one conversation, which keeps its state from call to call.

The code of a call comes through descriptor 3, after a random token of eight bytes, its length and its number. The answer is written
there, after the same token. Output goes to files that are emptied between calls. The code can read and change all of this; at worst
its own state is lost. To make that unlikely, everything that is used here is bound to names here before any code of a call runs.
"""
import ast
import builtins
import io
import linecache
import os
import signal
import sys
import traceback
import types

CONVERSATION = 3
MOST_FRAMES = 10  # of a traceback, from either end
MOST_TEXT = 16 << 10  # characters of a value or a traceback, from either end
SPARE = 60  # the first of three duplicates of the standard streams' descriptors, for a call that closes them
read, write, leave, copy, look = os.read, os.write, os._exit, os.dup2, os.fstat
raw, text_stream = io.FileIO, io.TextIOWrapper
TREE, Expression, Expr = ast.PyCF_ONLY_AST, ast.Expression, ast.Expr
settrace, setprofile, setitimer, exc_info = sys.settrace, sys.setprofile, signal.setitimer, sys.exc_info
TracebackException, StackSummary, FrameSummary = traceback.TracebackException, traceback.StackSummary, traceback.FrameSummary


def take(n):
    """Reads n bytes of the conversation; at its end this process exits."""
    data = b""
    while len(data) < n:
        part = read(CONVERSATION, n - len(data))
        if not part:
            leave(0)
        data += part
    return data


def give(token, content):
    data = token + len(content).to_bytes(4, "little") + content
    while data:
        data = data[write(CONVERSATION, data):]


def open_streams():
    """Opens unbuffered standard streams: output that one call could not write must not appear in the next one."""
    for fd in range(3):
        try:
            look(fd)
        except OSError:
            copy(SPARE + fd, fd)
    sys.stdin = sys.__stdin__ = text_stream(raw(0, "rb", closefd=False), encoding="utf-8")
    for fd, name in ((1, "stdout"), (2, "stderr")):
        stream = text_stream(raw(fd, "wb", closefd=False), encoding="utf-8", errors="backslashreplace", write_through=True)
        setattr(sys, name, stream)
        setattr(sys, "__%s__" % name, stream)
        NAMES[name] = stream
    NAMES["stdin"] = sys.stdin


def run(source, number):
    """Runs the code of a call, and returns the kind of its outcome and a text: the value of the last expression or the
    traceback."""
    name = "call-%d" % number
    try:
        tree, last = compile(source, name, "exec", TREE, dont_inherit=True), None
        linecache.cache[name] = len(source), None, source.decode("utf-8", "replace").splitlines(True), name
        if tree.body and type(tree.body[-1]) is Expr:
            last = Expression(tree.body.pop().value)
        exec(compile(tree, name, "exec", dont_inherit=True), NAMES)
        if last is not None:
            value = eval(compile(last, name, "eval", dont_inherit=True), NAMES)
            if value is not None:
                return b"V", shown(value)
        return b"N", ""
    except BaseException:
        return b"E", explained(*exc_info())
    finally:
        settrace(None)
        setprofile(None)
        setitimer(signal.ITIMER_REAL, 0)


def shown(value):
    """What an interactive interpreter would print. It may raise what repr raises."""
    return "".join(["", repr(value)])  # a plain str, even if repr returns a subclass


def explained(kind, value, trace):
    """The traceback, with only the frames of the code of calls."""
    try:
        told = TracebackException(kind, value, trace)
        parts, seen = [told], []
        while parts:
            part = parts.pop()
            if part is not None and id(part) not in seen:
                seen.append(id(part))
                part.stack = own_frames(part.stack)
                parts += [part.__cause__, part.__context__]
        text = "".join(["", "".join(told.format())])
        return text.replace('  File "calls left out", line 0, in ', "  … calls left out: ")
    except BaseException:
        return "an exception that cannot be shown"


def own_frames(stack):
    frames = [f for f in stack if f.filename.startswith("call-")]
    left = len(frames) - 2 * MOST_FRAMES
    if left > 0:
        frames[MOST_FRAMES:-MOST_FRAMES] = [FrameSummary("calls left out", 0, str(left), lookup_line=False, line="")]
    return StackSummary.from_list(frames)


def cut(text):
    left = len(text) - 2 * MOST_TEXT
    if left > 0:
        text = "%s\n… %d characters left out …\n%s" % (text[:MOST_TEXT], left, text[-MOST_TEXT:])
    return text.encode("utf-8", "backslashreplace")


def serve():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # printing too much raises an exception instead
    module = types.ModuleType("__main__")
    names = module.__dict__
    names.update(NAMES, __builtins__=builtins)
    globals()["NAMES"] = names
    sys.modules["__main__"] = module
    for fd in range(3):
        copy(fd, SPARE + fd, inheritable=False)
    give(bytes(8), b"")
    while True:
        token = take(8)
        size = int.from_bytes(take(4), "little")
        number, source = int.from_bytes(take(4), "little"), take(size - 4)
        open_streams()
        kind, text = run(source, number)
        give(token, kind + cut(text))
