"""Runs the driver in SOURCE with its own copy of the built-in names, so that a program that replaces names in builtins
does not affect it. NAMES are the names that a program starts with."""
NAMES = {name: value for name, value in globals().items() if not name.startswith("__") and name != "SOURCE"}


def serve(*arguments):
    import builtins
    own = {"__name__": "driver", "__builtins__": dict(vars(builtins)), "NAMES": NAMES}
    exec(compile(SOURCE, "driver.py", "exec", dont_inherit=True), own)
    own["serve"](*arguments)
