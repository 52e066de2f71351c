# Traces a program. It is appended to trace_values.py, which shows values and finds what has changed in them.


def variables(code):
    """The names that are watched in frames of a code object: its own variables, and the globals that it uses."""
    if code.co_name == "<module>":
        return (), tuple(sorted(module_names))
    own = tuple(n for n in code.co_varnames + code.co_cellvars + code.co_freevars if not n.startswith((".", "__")))
    return own, tuple(n for n in code.co_names if n in module_names)


def differences(state):
    """The changes of a frame's variables since the last call."""
    found = []
    local = state.frame.f_locals if state.locals else {}
    for names, values, seen in ((state.locals, local, state.seen), (state.globals, state.frame.f_globals, module_seen)):
        for name in names:
            value = values.get(name, MISSING)
            if value is MISSING or id(type(value)) in QUIET or issubclass(type(value), type):
                seen.pop(name, None)
                continue
            here = []
            seen[name] = compare(name, seen.get(name, MISSING), value, 0, here)
            if len(here) > MOST_CHANGES:
                here[MOST_CHANGES:] = [("%s: %d more" % (name, len(here) - MOST_CHANGES), None, "")]
            found += here
    return found


def finish(state):
    found = differences(state)
    if found:
        record.put('["c",%d,[%s]]' % (state.depth, ",".join(
            "[%s,%s,%s]" % (quoted(path), "null" if old is None else quoted(old), quoted(new)) for path, old, new in found)))


def enter(frame, event, argument):
    """The trace function for every frame that begins or resumes. It traces those of the program."""
    code = frame.f_code
    if event != "call" or id(code) not in followed or current_frame(1) is not frame:
        return None
    try:
        depth, above = 0, frame.f_back
        while above is not None:
            if id(above) in states:
                depth = states[id(above)].depth + 1
                break
            above = above.f_back
        state = states.get(id(frame))
        if state is not None:
            state.depth = depth
            record.put('["g",%d,%s]' % (depth, quoted(code.co_name)))
            return step
        state = states[id(frame)] = Frame()
        state.frame, state.depth, state.seen, state.leaving = frame, depth, {}, False
        state.locals, state.globals = variables(code)
        count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
        given = frame.f_locals if count else {}
        for name in code.co_varnames[:count]:
            if name in given:
                state.seen[name] = look(given[name], 0)
        if code.co_name != "<module>":
            record.put('["f",%d,%s,%d,[%s]]' % (depth, quoted(code.co_name), code.co_firstlineno, ",".join(
                "[%s,null,%s]" % (quoted(n), quoted(shown(given[n]))) for n in code.co_varnames[:count] if n in given)))
        return step
    except Exception:
        return None  # the stack is exhausted, or the program has changed something that is used here


def step(frame, event, argument):
    """The trace function for the lines, exceptions and ends of a frame of the program."""
    state = states.get(id(frame))
    if state is None:
        return None
    try:
        if event == "line":
            line(state, frame)
        elif event == "exception":
            finish(state)
            raised(state, frame, argument)
        elif event == "return":
            finish(state)
            returned(state, frame, argument)
    except Exception:
        pass  # as above
    return step


def line(state, frame):
    global lines
    finish(state)
    state.leaving = False
    lines += 1
    if lines > most_lines:
        stop("lines")
    record.put('["l",%d,%d]' % (state.depth, frame.f_lineno))


def raised(state, frame, argument):
    global last_raised
    state.leaving = True
    kind, value, _ = argument
    if value is not last_raised and not issubclass(kind, (StopIteration, GeneratorExit)):
        last_raised = value
        record.put('["x",%d,%d,%s]' % (state.depth, frame.f_lineno, quoted(message(kind, value))))


def message(kind, value):
    """The last line of a traceback, as far as it can be made without running code of the program."""
    given = ARGUMENTS(value)
    if not given:
        return plain_name(kind)
    if len(given) == 1 and type(given[0]) is str and not issubclass(kind, KeyError):
        return "%s: %s" % (plain_name(kind), given[0][:200])
    return "%s: %s" % (plain_name(kind), shown(given[0] if len(given) == 1 else given))


def returned(state, frame, argument):
    code = frame.f_code
    if code.co_flags & GENERATORS and not state.leaving:
        if not dis.opname[code.co_code[frame.f_lasti]].startswith("RETURN_"):
            record.put('["y",%d,%s]' % (state.depth, quoted(shown(argument))))
            return
    del states[id(frame)]
    if state.leaving and argument is None:
        record.put('["u",%d]' % state.depth)
    else:
        record.put('["r",%d,%s]' % (state.depth, quoted(shown(argument))))


def follow(code):
    """Marks the code objects of functions to be traced, and collects the global names of the module. Bodies of classes,
    comprehensions and lambdas are not traced, but what they call is."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("STORE_NAME", "STORE_GLOBAL") and (code.co_name == "<module>" or instruction.opname == "STORE_GLOBAL"):
            if not instruction.argval.startswith("__"):
                module_names.add(instruction.argval)
    if code.co_name == "<module>" or code.co_flags & OPTIMIZED and not code.co_name.startswith("<"):
        followed[id(code)] = code
    for constant in code.co_consts:
        if type(constant) is types.CodeType:
            follow(constant)


def no_trace(function):
    """Replaces sys.settrace, so that the program cannot switch this trace off."""


def find(names, call):
    solution = names.get("Solution")
    if isinstance(solution, type) and hasattr(solution, call):
        return getattr(solution(), call)
    if call not in names or names[call] is NAMES.get(call):
        raise NameError("the program defines no function %r" % call)
    return names[call]


def serve(source, call, arguments, limits):
    global record, most_lines
    record, most_lines = Record(limits["bytes"]), limits["lines"]
    try:
        tree = ast.parse(source, FILE_NAME)
        code = compile(tree, FILE_NAME, "exec", dont_inherit=True)
    except BaseException as problem:
        return ended("syntax", "line %s: %s" % (getattr(problem, "lineno", "?"), message(type(problem), problem)))
    loops = [[node.lineno, node.end_lineno] for node in ast.walk(tree) if isinstance(node, (ast.For, ast.While, ast.AsyncFor))]
    record.put('["o",%s]' % loops)
    follow(code)
    module = types.ModuleType("solution" if call else "__main__")
    sys.modules["__main__"] = sys.modules[module.__name__] = module
    module.__dict__.update(NAMES, __builtins__=builtins, __file__=FILE_NAME)
    sys.settrace = no_trace
    ending = "end", ""
    settrace(enter)
    try:
        exec(code, module.__dict__)
        if call:
            find(module.__dict__, call)(*arguments)
    except SystemExit as exit:
        ending = "exit", shown(ARGUMENTS(exit)[0] if ARGUMENTS(exit) else None)
    except BaseException as problem:
        ending = "exception", message(type(problem), problem)
    settrace(None)
    ended(*ending)


def ended(why, text):
    record.put('["e",%s,%s]' % (quoted(why), quoted(text)))
    raise SystemExit(0)  # the runner then waits for threads, calls atexit functions and flushes buffers


record, most_lines, lines, worked, last_raised = None, 0, 0, 0, None
states, followed, module_names, module_seen = {}, {}, set(), {}
