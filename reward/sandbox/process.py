"""Runs one program in this process and ends it. It follows program.py in one and the same module, and
is given the paths of the request, of the result and of the file that tells how far it got."""


def main(request, result, progress, cpu, size, space):
    try:
        import resource
        resource.setrlimit(resource.RLIMIT_CPU, (int(cpu), int(cpu) + 1))
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(size), int(size)))
        resource.setrlimit(resource.RLIMIT_AS, (int(space), int(space)))
    except (ImportError, ValueError):
        pass  # not a Unix, or a lower limit is set already
    with open(request, "rb") as f:
        source, call, args = read_parts(f.read())
    with open(progress, "w", encoding="utf-8", errors="replace") as f:
        try:
            code = compile(source, FILE_NAME, "exec", dont_inherit=True)
        except BaseException as problem:
            f.write("C" + compile_error(problem))
            return
        f.write("S")
    run(code, source, call, args, os.open(result, os.O_WRONLY | getattr(os, "O_BINARY", 0)))


main(*sys.argv[1:])
