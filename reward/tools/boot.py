"""Starts what follows it in SOURCE with a copy of the built-in names of its own: a program may replace what it finds in
builtins, and changes nothing for what watches over it. NAMES are those that a program begins with."""
NAMES = {name: value for name, value in globals().items() if not name.startswith("__") and name != "SOURCE"}


def serve(*arguments):
    import builtins
    own = {"__name__": "driver", "__builtins__": dict(vars(builtins)), "NAMES": NAMES}
    exec(compile(SOURCE, "driver.py", "exec", dont_inherit=True), own)
    own["serve"](*arguments)
