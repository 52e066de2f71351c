"""Runs one program in this process and exits. It is appended to program.py to make one module. Its arguments
are the paths of the request, the result and the progress file, and the limits."""


def main(request, result, progress, cpu, size, space):
    try:
        import resource
        resource.setrlimit(resource.RLIMIT_CPU, (int(cpu), int(cpu) + 1))
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(size), int(size)))
        resource.setrlimit(resource.RLIMIT_AS, (int(space), int(space)))
    except (ImportError, ValueError):
        pass  # not Unix, or a lower limit is already set
    try:
        with open("/proc/self/oom_score_adj", "w") as f:
            f.write("1000")  # when memory runs out, the kernel kills this process rather than the trainer
    except OSError:
        pass  # not Linux, or /proc is read-only
    with open(request, "rb") as f:
        source, call, args = read_parts(f.read())
    result, progress = (os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0)) for path in (result, progress))
    code = compiled(source, progress)
    os.close(progress)
    run(code, source, call, args, result)


main(*sys.argv[1:])
