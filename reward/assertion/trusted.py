"""The trusted side of a test: runs the assertions of the problem's author, and has the program's functions called on the other side."""
import builtins
import traceback

TOKEN = bytes(8)
FAILURES = []  # exceptions that the program raised
ASKED = []  # not empty once the program has been asked for anything
# An exception of the program is raised again here if it is one of these, since a test may expect it. StopIteration and the like are
# not among them: they would change the control flow of the test.
EXPECTED = {e.__name__: e for e in (
    ArithmeticError, AssertionError, AttributeError, BufferError, ConnectionError, EOFError, Exception, FileExistsError, FileNotFoundError,
    FloatingPointError, UnicodeDecodeError, UnicodeEncodeError,
    ImportError, IndexError, IsADirectoryError, KeyError, LookupError, ModuleNotFoundError, NameError, NotADirectoryError,
    NotImplementedError, OSError, OverflowError, PermissionError, RecursionError, RuntimeError, TimeoutError, TypeError, UnboundLocalError,
    UnicodeError, ValueError, ZeroDivisionError)}


class ProgramFailed(BaseException):
    """The program has failed in a way that no test expects."""


class NotPlain(BaseException):
    """The test passes the program a value that cannot cross."""


def say(message):
    give(TOKEN, message)


def fail(text):
    failure = ProgramFailed(text)
    FAILURES.append(failure)
    raise failure


def cannot_cross(value):
    raise NotPlain("a value of type %s cannot be passed to the program: it is not plain data" % type(value).__name__)


def stands(value):
    """How an object of the program's is encoded on the way back."""
    if type(value) is Held:
        return ["h", object.__getattribute__(value, "_Held__place"), ""]
    cannot_cross(value)


def packed(value):
    try:
        return encode(value, stands)
    except NoValue as problem:
        raise NotPlain("%s cannot be passed to the program" % problem)


def ask(*question):
    """Has the program's side do something, and returns the value."""
    global TOKEN
    ASKED.append(True)
    text = to_json(question).encode()
    if len(text) > MOST_ANSWER:
        raise NotPlain("what is passed to the program has %d bytes; at most %d" % (len(text), MOST_ANSWER))
    say(b"Q" + text)
    TOKEN, answer = hear()
    try:
        tree = from_json(answer[1:])
        if answer[:1] == b"V":
            return decode(tree, Held)
        own, text, kind = tree
        own, text, kind = str(own)[:100], str(text)[:2000], str(kind)
    except Exception:  # not JSON, not a value, not hashable, or nested too deeply
        fail("what the program gave back is no plain value")
    if kind not in EXPECTED:
        fail((own + ": " + text) if own else text)
    try:
        failure = EXPECTED[kind](text)
    except TypeError:  # UnicodeDecodeError and UnicodeEncodeError take more arguments
        told = {"__module__": "builtins", "__init__": lambda self, text: None, "__str__": lambda self: text}
        failure = type(kind, (EXPECTED[kind],), told)(text)
    FAILURES.append(failure)
    raise failure


class Held:
    """A proxy of an object that stays with the program: a test can call it, read and set attributes, iterate over it and pass it back.
    It equals only itself, because otherwise the program would decide what it equals. Attributes are the object's, unless their names
    begin with two underscores."""
    __slots__ = ("__place", "__name")

    def __init__(self, place, name):
        object.__setattr__(self, "_Held__place", place)
        object.__setattr__(self, "_Held__name", str(name)[:100])

    def __call__(self, *args, **named):
        return ask("call", self.__place, packed(list(args)), packed(named))

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return ask("get", self.__place, name)

    def __setattr__(self, name, value):
        return ask("set", self.__place, name, packed(value))

    def __iter__(self):
        return iter(ask("list", self.__place))

    def __len__(self):
        return ask("len", self.__place)

    def __getitem__(self, key):
        return ask("item", self.__place, packed(key))

    def __eq__(self, other):
        if type(other) is Held:
            return self.__place == other.__place
        fail("the program returned an object of type %s, which is not plain data" % self.__name)

    def __hash__(self):
        return hash(self.__place)

    def __bool__(self):
        return ask("truth", self.__place) is True

def explained(problem):
    """An exception on one line, after the line of the test that raised it."""
    text = "".join(traceback.format_exception_only(type(problem), problem)).strip()
    places = [f for f in traceback.extract_tb(problem.__traceback__) if f.filename in SOURCES]
    if places:
        lines = SOURCES[places[-1].filename].splitlines()
        at = places[-1].lineno
        if 0 < at <= len(lines):
            text = "%s: %s" % (lines[at - 1].strip(), text)
    return text[:2000].encode("utf-8", "backslashreplace")


SOURCES = {}


def compiled(name, source):
    SOURCES[name] = source
    return compile(source, name, "exec", dont_inherit=True)


def judge(test):
    """Runs a test, and returns the message about it."""
    names = {"__name__": "assertions", "__builtins__": builtins}
    function = test.get("function", "")
    try:
        setup, source = compiled("setup", test.get("setup", "")), compiled("test", test["source"])
        for name in test.get("calls", ()):
            names[name] = Held(name, name)
        if function:
            names[function] = Held(function, function)
        exec(setup, names)
        if function:
            names[function] = Held(function, function)
        exec(source, names)
        return b"P"
    except BaseException as problem:
        if any(problem is failure for failure in FAILURES):
            return b"X" + explained(problem) if type(problem) is not ProgramFailed else b"X" + str(problem).encode("utf-8", "backslashreplace")
        faulty = isinstance(problem, (NotPlain, SystemExit, SyntaxError)) or not ASKED and not isinstance(problem, AssertionError)
        return (b"E" if faulty else b"F") + explained(problem)


def serve(names):
    global TOKEN
    sys.setrecursionlimit(5000)
    any_digits()
    say(b"")
    while True:
        TOKEN, message = hear()
        del FAILURES[:], ASKED[:]
        say(judge(json.loads(message)))
