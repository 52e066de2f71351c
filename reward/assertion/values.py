"""Shared by both sides of a test: the encodings of values and messages.

A value is written as JSON. Null, booleans, numbers and strings are themselves; everything else is a list that begins with a letter for
its type. A program can send any bytes, so decoding makes only exact built-in types, and refuses what is not a value.
"""
import json
import os
import sys

CONVERSATION = 3
MOST_ANSWER = (1 << 20) - 64
MOST_DEPTH = 200
MOST_DIGITS = 70_000
TYPES = {t.__name__: t for t in (int, float, str, bool, list, tuple, dict, set, frozenset, bytes, bytearray, complex, object, type(None))}
read, write, leave = os.read, os.write, os._exit
to_json, JSONDecoder = json.dumps, json.JSONDecoder


class NoValue(Exception):
    """A value cannot cross; the message says why."""


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


def hear():
    """Receives the next message, which may come in parts, and the token that the answer must begin with."""
    message = b""
    while True:
        token = take(8)
        part = take(int.from_bytes(take(4), "little"))
        message += part[1:]
        if part[:1] == b"L":
            return token, message
        give(token, b"+")


def encode(value, hold, depth=0):
    """A value as JSON can represent it. hold(value) is the encoding of an object that stays on its side."""
    if depth > MOST_DEPTH:
        raise NoValue("a value that is nested deeper than %d" % MOST_DEPTH)
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        if value.bit_length() > 3.3219 * MOST_DIGITS:
            raise NoValue("an integer of more than %d digits" % MOST_DIGITS)
        return int(value)
    if isinstance(value, float):
        return float(value)
    many = lambda mark, items: [mark] + [encode(item, hold, depth + 1) for item in items]
    for kind, mark in ((list, "l"), (tuple, "t"), (set, "s"), (frozenset, "z")):
        if isinstance(value, kind):
            return many(mark, kind.__iter__(value))
    if isinstance(value, dict):
        return ["d"] + [[encode(k, hold, depth + 1), encode(v, hold, depth + 1)] for k, v in dict.items(value)]
    if isinstance(value, (bytes, bytearray)):
        return ["b" if isinstance(value, bytes) else "a", value.hex()]
    if isinstance(value, complex):
        return ["c", value.real, value.imag]
    if isinstance(value, range):
        return ["r", value.start, value.stop, value.step]
    if isinstance(value, type) and TYPES.get(value.__name__) is value:
        return ["y", value.__name__]
    kind = type(value)
    if kind.__module__ == "numpy" and hasattr(value, "tolist"):
        return encode(value.tolist(), hold, depth + 1)
    name = kind.__module__ + "." + kind.__name__
    if name == "collections.deque":
        return many("q", list(value))
    if name == "decimal.Decimal":
        return ["e", str(value)]
    if name == "fractions.Fraction":
        return ["f"] + [encode(part, hold, depth + 1) for part in (value.numerator, value.denominator)]
    return hold(value)


def decode(tree, held, depth=0):
    """The inverse of encode. held(place, name) is the proxy of an object that stays on the other side."""
    if tree is None or type(tree) in (bool, str, int, float):
        return tree
    if type(tree) is not list or not tree or depth > MOST_DEPTH:
        raise NoValue("no value")
    mark, rest = tree[0], tree[1:]
    if mark == "l":
        return [decode(item, held, depth + 1) for item in rest]
    if mark == "t":
        return tuple([decode(item, held, depth + 1) for item in rest])
    if mark == "s":
        return {decode(item, held, depth + 1) for item in rest}
    if mark == "z":
        return frozenset([decode(item, held, depth + 1) for item in rest])
    if mark == "d":
        return {decode(k, held, depth + 1): decode(v, held, depth + 1) for k, v in rest}
    if mark == "b" and len(rest) == 1:
        return bytes.fromhex(rest[0])
    if mark == "a" and len(rest) == 1:
        return bytearray.fromhex(rest[0])
    if mark == "c" and len(rest) == 2:
        return complex(float(rest[0]), float(rest[1]))
    if mark == "r" and len(rest) == 3:
        return range(*rest)
    if mark == "y" and len(rest) == 1:
        return TYPES[rest[0]]
    if mark == "h" and len(rest) == 2:
        return held(*rest)
    return decode_rare(mark, [decode(item, held, depth + 1) for item in rest])


def decode_rare(mark, parts):
    """Values of types whose modules are imported where there are such."""
    if mark == "q":
        from collections import deque
        return deque(parts)
    if mark == "e" and [type(part) for part in parts] == [str]:
        from decimal import Decimal
        return Decimal(parts[0])
    if mark == "f" and [type(part) for part in parts] == [int, int]:
        from fractions import Fraction
        return Fraction(*parts)
    raise NoValue("no value")


def whole(digits):
    if len(digits) > MOST_DIGITS + 1:
        raise NoValue("an integer of more than %d digits" % MOST_DIGITS)
    return int(digits)


def any_digits():
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)


def from_json(text):
    return JSONDecoder(parse_int=whole).decode(text.decode("ascii"))
