"""The program's side: loads the program and calls what it is asked to. The program can read and change all of this, and gains no more
by that than by returning something else."""
import _signal
import itertools
import linecache
import random
import types

MODULE = types.ModuleType("solution")
HELD = []  # objects that stay here; the other side refers to them by index
PLACES = {}  # the index of each, by id
MOST_ITEMS = 100_000
NAMES = {}  # those that a program has before it starts
FILE_NAME = "solution.py"


def hold(value):
    place = PLACES.setdefault(id(value), len(HELD))
    if place == len(HELD):
        HELD.append(value)
    return ["h", place, type(value).__name__]


def find(name):
    """What the program defines under a name: a method of class Solution, or a global of the module."""
    names = MODULE.__dict__
    solution = names.get("Solution")
    if isinstance(solution, type) and name != "Solution" and hasattr(solution, name):
        return getattr(solution(), name)
    if name not in names or names[name] is NAMES.get(name, NAMES):
        raise NameError("the program defines no %r" % name)
    return names[name]


def placed(place, name=""):
    return find(place) if isinstance(place, str) else HELD[place]


def load(source, given):
    try:
        code = compile(source, FILE_NAME, "exec", dont_inherit=True)
    except BaseException as problem:
        return b"C" + ("%s: %s" % (type(problem).__name__, problem)).encode("utf-8", "backslashreplace")[:4000]
    MODULE.__dict__.update(NAMES, __file__=FILE_NAME)
    sys.modules["solution"] = sys.modules["__main__"] = MODULE
    linecache.cache[FILE_NAME] = len(source), None, source.splitlines(True), FILE_NAME
    if given:
        exec(compile(given, "given.py", "exec", dont_inherit=True), MODULE.__dict__)
    exec(code, MODULE.__dict__)
    return b"V"


def answer(question):
    verb, place, *rest = from_json(question)
    if verb == "call":
        args, named = decode(rest[0], placed), decode(rest[1], placed)
        called = placed(place)
        value = called(*args, **named)
        if type(value) is called and called.__module__ == MODULE.__name__ and isinstance(value, (list, dict, set)):
            return b"V" + to_json(hold(value)).encode()  # it stays here, because its class may have methods
    elif verb == "get":
        value = getattr(placed(place), rest[0])
    elif verb == "set":
        value = setattr(placed(place), rest[0], decode(rest[1], placed))
    elif verb == "item":
        value = placed(place)[decode(rest[0], placed)]
    elif verb == "len":
        value = len(placed(place))
    elif verb == "truth":
        value = bool(placed(place))
    else:
        value = list(itertools.islice(iter(placed(place)), MOST_ITEMS))
    text = to_json(encode(value, hold)).encode()
    if len(text) > MOST_ANSWER:
        raise NoValue("a value of %d bytes; at most %d cross" % (len(text), MOST_ANSWER))
    return b"V" + text


def reply(message, texts):
    try:
        return load(*texts) if message[:1] == b"R" else answer(message[1:])
    except NoValue as problem:
        return b"E" + to_json(["", "the program returned %s" % problem, ""]).encode()
    except SystemExit:
        raise
    except BaseException as problem:
        kind = type(problem)
        name = next((k.__name__ for k in kind.__mro__ if k.__module__ == "builtins"), "")
        try:
            quotes = kind.__str__ is KeyError.__str__ and len(problem.args) == 1  # the other side's KeyError quotes it
            text = str(problem.args[0] if quotes else problem)[:1000]
        except BaseException:
            text = ""
        return b"E" + to_json([kind.__name__, text, name]).encode()


def serve(names):
    NAMES.update((name, value) for name, value in names.items() if name not in ("TEXTS", "start", "serve_assertions") and name[:2] != "__")
    _signal.signal(_signal.SIGXFSZ, _signal.SIG_IGN)  # printing too much raises an exception instead
    any_digits()
    give(bytes(8), b"")
    while True:
        token, message = hear()
        give(token, reply(message, names["TEXTS"]))
