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
    try:
        with open("/proc/self/oom_score_adj", "w") as f:
            f.write("1000")  # out of memory, the kernel ends this process before the one that trains
    except OSError:
        pass  # not a Linux, or /proc is read-only
    with open(request, "rb") as f:
        source, call, args = read_parts(f.read())
    result, progress = (os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0)) for path in (result, progress))
    code = compiled(source, progress)
    os.close(progress)
    run(code, source, call, args, result)


main(*sys.argv[1:])
