"""Runs a program and records what it does, line by line: which line ran, which variables it changed, calls, returned values,
exceptions.

The record is written to a mapping of descriptor 3, so that it survives however the program ends. Objects are shown and compared
without calling any code of the program (__repr__, __eq__, __hash__), by reading them as their built-in base types. The program can
read and change all of this; at worst the record of what it did is wrong.
"""
import ast
import builtins
import collections
import dis
import mmap
import os
import sys
import types
from _json import encode_basestring_ascii as quoted
from operator import is_

RECORD = 3
FILE_NAME = "solution.py"
MOST_SHOWN = 80  # characters of a value
MOST_CHANGES = 6  # shown of one variable in one line
MOST_WORK = 6000000  # a bound on the elements that are examined in all
LARGE = 4000  # elements; a larger container is not examined
DEEP = 3

leave, current_frame, settrace = os._exit, sys._getframe, sys.settrace
CLASSES, MEMBERS, NAME, FLAGS = (type.__dict__[name].__get__ for name in ("__mro__", "__dict__", "__name__", "__flags__"))
WRITTEN_IN_PYTHON = 1 << 9  # Py_TPFLAGS_HEAPTYPE, which some classes written in C have, too
ARGUMENTS = BaseException.__dict__["args"].__get__
LISTS = {list: list.__iter__, tuple: tuple.__iter__, collections.deque: collections.deque.__iter__}
SETS = {set: set.__iter__, frozenset: frozenset.__iter__}
ATOMS = {id(kind) for kind in (int, float, complex, bool, str, bytes, type(None), type(Ellipsis), range)}
QUIET = {id(kind) for kind in (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, type)}
Slot, Attribute = types.MemberDescriptorType, types.GetSetDescriptorType
flush, Stream = type(sys.stdout).flush, type(sys.stdout)
GENERATORS, OPTIMIZED = 0x20 | 0x80 | 0x200, 0x1
MISSING = object()


class Record:
    """The memory that holds the record. The program is stopped when it is full."""

    def __init__(self, size):
        os.ftruncate(RECORD, size)
        self.memory, self.at, self.size = mmap.mmap(RECORD, size), 0, size

    def put(self, text):
        line = (text + "\n").encode("ascii", "replace")
        if self.at + len(line) > self.size - 400:
            stop("full")
        self.write(line)

    def write(self, line):
        self.memory[self.at:self.at + len(line)] = line
        self.at += len(line)


class Frame:
    """The state of a running frame: its depth, its variables as they were last seen, whether an exception is leaving it."""
    __slots__ = ("frame", "depth", "seen", "locals", "globals", "leaving")


class Parts:
    """A snapshot of a container: the object, its keys and elements, and the snapshots of elements that are containers."""
    __slots__ = ("object", "keys", "copy", "below")


def stop(why):
    """Ends the program and records why."""
    settrace(None)
    record.write(('["e",%s,""]\n' % quoted(why)).encode())
    for stream in (sys.stdout, sys.stderr):
        if type(stream) is Stream:
            try:
                flush(stream)
            except BaseException:
                pass
    leave(0)


def plain_name(kind):
    return "".join(["", NAME(kind)])[:40]


def show(value, depth=0):
    """A short text of a value, made without running any code of the program."""
    kind = type(value)
    if id(kind) in ATOMS:
        return show_atom(value, kind)
    for base, walk in LISTS.items():
        if issubclass(kind, base):
            opened, closed = ("(", ")") if base is tuple else ("[", "]")
            one = "," if base is tuple and base.__len__(value) == 1 else ""
            return title(kind, base) + opened + few(walk(value), base.__len__(value), depth) + one + closed
    for base, walk in SETS.items():
        if issubclass(kind, base):
            return title(kind, base) + ("{" + few(walk(value), base.__len__(value), depth) + "}" if base.__len__(value) else "set()")
    if issubclass(kind, dict):
        return title(kind, dict) + "{" + few_pairs(dict.items(value), dict.__len__(value), depth, "%s: %s", show) + "}"
    if issubclass(kind, type):
        return "<class %s>" % plain_name(value)
    if kind is types.FunctionType or kind is types.GeneratorType:
        return "<%s>" % kind.__name__
    for base in (str, int, float, bytes):
        if issubclass(kind, base):
            return "%s(%s)" % (plain_name(kind), show_atom(base.__getnewargs__(value)[0], base))
    if issubclass(kind, BaseException):
        return plain_name(kind) + "(" + few(tuple.__iter__(ARGUMENTS(value)), len(ARGUMENTS(value)), depth) + ")"
    names, values = attributes(value, kind)
    if not names:
        return "<%s>" % plain_name(kind)
    return plain_name(kind) + "(" + few_pairs(zip(names, values), len(names), depth, "%s=%s", lambda name, _: name[:40]) + ")"


def show_atom(value, kind):
    if kind is int and int.bit_length(value) > 200:
        return "<integer of about %d digits>" % (int.bit_length(value) * 0.30103 + 1)
    if kind is str or kind is bytes:
        if len(value) > MOST_SHOWN - 20:
            return "%s…%s (%d in all)" % (kind.__repr__(value[:30]), kind.__repr__(value[-10:]), len(value))
    return kind.__repr__(value)


def title(kind, base):
    return "" if kind is base else plain_name(kind)


def few(walk, size, depth):
    """The first elements, and the last one if there are more."""
    if depth >= DEEP:
        return "…" if size else ""
    most, texts, at = 8 if depth == 0 else 4, [], 0
    for element in walk:
        at += 1
        if at <= most or at == size and size <= LARGE:
            texts.append(show(element, depth + 1))
        elif at == most + 1:
            texts.append("…")
            if size > LARGE:
                break
    text = ", ".join(texts)
    return text + " (%d in all)" % size if size > most + 1 and depth == 0 else text


def few_pairs(pairs, size, depth, form, show_key):
    if depth >= DEEP:
        return "…" if size else ""
    texts = []
    for key, value in pairs:
        if len(texts) == 5:
            texts.append("… %d in all" % size)
            break
        texts.append(form % (show_key(key, depth + 1), show(value, depth + 1)))
    return ", ".join(texts)


def shown(value):
    text = show(value)
    if len(text) > MOST_SHOWN:
        text = text[:MOST_SHOWN - 12] + "…" + text[-11:]
    return text


def attributes(value, kind):
    """Names and values of the instance attributes of an object, in its dictionary and its slots."""
    names, values = [], []
    for above in CLASSES(kind):
        members = MEMBERS(above)
        if not FLAGS(above) & WRITTEN_IN_PYTHON:
            continue
        own = members.get("__dict__")
        if type(own) is Attribute:
            inside = own.__get__(value)
            if type(inside) is dict:
                names += dict.keys(inside)
                values += dict.values(inside)
        for name, member in members.items():
            if type(member) is Slot and len(names) < 50:
                try:
                    values.append(member.__get__(value))
                    names.append(name)
                except AttributeError:
                    pass
    return names, values


def parts(value, kind):
    """The keys and elements of a container, or None for both. The keys of a list or a set are None."""
    for base, walk in LISTS.items():
        if issubclass(kind, base):
            return None, list(walk(value)) if base.__len__(value) <= LARGE else None
    if issubclass(kind, dict):
        return (list(dict.__iter__(value)), list(dict.values(value))) if dict.__len__(value) <= LARGE else (None, None)
    for base, walk in SETS.items():
        if issubclass(kind, base):
            return None, list(walk(value)) if base.__len__(value) <= LARGE else None
    if id(kind) in QUIET or issubclass(kind, type):
        return None, None
    names, values = attributes(value, kind)
    return (names, values) if names else (None, None)


def look(value, depth):
    """A snapshot of a value, to find later changes: the value itself if it is atomic, large or deeply nested."""
    kind = type(value)
    if id(kind) in ATOMS or depth > DEEP:
        return value
    keys, elements = parts(value, kind)
    if elements is None:
        return value
    work(len(elements))
    seen = Parts()
    seen.object, seen.keys, seen.copy, seen.below = value, keys, elements, {}
    for at, element in enumerate(elements):
        if id(type(element)) not in ATOMS:
            below = look(element, depth + 1)
            if type(below) is Parts:
                seen.below[at] = below
    return seen


def work(n):
    global worked
    worked += 1 + n // 8
    if worked > MOST_WORK:
        stop("work")


def compare(path, seen, value, depth, found):
    """Adds to found the changes of a value since its snapshot seen, each as path, old value or None, and new value. Returns the new
    snapshot."""
    kind = type(value)
    if id(kind) in ATOMS:
        if seen is value or type(seen) is kind and seen == value:
            return value
        old = shown(seen) if id(type(seen)) in ATOMS else None
        found.append((path, old, shown(value)))
        return value
    if type(seen) is not Parts or seen.object is not value:
        if seen is not value:
            found.append((path, None, shown(value)))
        return look(value, depth) if seen is not value or depth <= DEEP else value
    keys, elements = parts(value, kind)
    if elements is None:
        return look(value, depth)
    work(len(elements))
    old = seen.copy
    same_keys = keys is None or len(keys) >= len(seen.keys) and all(map(is_, seen.keys, keys))
    if len(elements) < len(old) or not same_keys or len(elements) > len(old) and keys is None or issubclass(kind, (set, frozenset)) and (
            not all(map(is_, old, elements))):
        found.append((path, None, shown(value)))
        return look(value, depth)
    if not seen.below and len(old) == len(elements) and all(map(is_, old, elements)):
        return seen
    for at, element in enumerate(elements):
        if at < len(old) and old[at] is element and at not in seen.below:
            continue
        before = MISSING if at >= len(old) else seen.below.get(at, old[at])
        below = compare(place(path, kind, keys, at), before, element, depth + 1, found)
        if type(below) is Parts:
            seen.below[at] = below
        else:
            seen.below.pop(at, None)
    seen.keys, seen.copy = keys, elements
    return seen


def place(path, kind, keys, at):
    if len(path) > 60:
        return path
    if keys is None:
        return "%s[%d]" % (path, at)
    if issubclass(kind, dict):
        return "%s[%s]" % (path, shown(keys[at])[:30])
    return "%s.%s" % (path, keys[at][:30])
