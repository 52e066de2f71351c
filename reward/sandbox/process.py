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
    result, progress = (os.open(path, os.O_WRONLY | getattr(os, "O_BINARY", 0)) for path in (result, progress))
    code = compiled(source, progress)
    os.close(progress)
    run(code, source, call, args, result)


main(*sys.argv[1:])
