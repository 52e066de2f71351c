"""Runs solution.py: as __main__ on standard input, or one function of it on JSON arguments.

Arguments: the name of the function, or nothing, and the descriptor that its value is written to. The
first byte there is C where the source does not compile and R where it runs.
"""
import json
import os
import sys
import threading
import traceback
import types

FROM = ("string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random",
        "statistics", "itertools", "functools", "operator", "io", "sys", "json", "typing")
ALSO = ("array", "builtins", "cmath", "contextlib", "dataclasses", "decimal", "enum", "fractions",
        "numbers", "queue", "threading", "time", "types")


def preamble():
    """What programs may use without importing it."""
    names = {}
    for module in FROM:
        exec("from %s import *" % module, names)
    for name in dir(__import__("builtins")):
        names.pop(name, None)  # pow is the built-in one, not that of math
    for module in FROM + ALSO:
        names[module] = __import__(module)
    names.pop("__builtins__", None)
    return names


def digits(n):
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(n)


def plain(value):
    """Numbers and arrays of numpy as Python's own."""
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError("JSON cannot carry a value of type %s" % type(value).__name__)


def find(names, call, given):
    solution = names.get("Solution")
    if isinstance(solution, type) and hasattr(solution, call):
        return getattr(solution(), call)
    if call not in names or names[call] is given.get(call):
        raise NameError("the program defines no function %r" % call)
    return names[call]


def main(call, fd):
    with open("solution.py", "rb") as file:
        source = file.read()
    try:
        code = compile(source, "solution.py", "exec", dont_inherit=True)
    except BaseException as problem:
        os.write(fd, b"C")
        sys.exit("".join(traceback.format_exception_only(type(problem), problem)))
    os.write(fd, b"R")
    given = preamble()
    module = types.ModuleType("solution" if call else "__main__")
    names = module.__dict__
    names.update(given)
    names["__file__"] = "solution.py"
    sys.modules["__main__"] = sys.modules[module.__name__] = module
    sys.argv = ["solution.py"]
    sys.setrecursionlimit(50000)
    threading.stack_size(64 << 20)
    digits(50000)
    if not call:
        os.close(fd)
        exec(code, names)
        return
    args = json.load(sys.stdin)
    exec(code, names)
    value = find(names, call, given)(*args)
    digits(0)
    try:
        text = json.dumps(value, default=plain, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as problem:
        print("the returned value is lost: %s" % problem, file=sys.stderr)
        return
    while text:
        text = text[os.write(fd, text):]


main(sys.argv[1], int(sys.argv[2]))
