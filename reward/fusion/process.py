"""Runs the program of a request in this process and exits. It is appended to program.py to make one module.
Its argument is the descriptor to which it writes its progress and then the value of a call."""


def main(result):
    with open("request", "rb") as f:
        source, call, args = read_parts(f.read())
    code = compiled(source, result)
    if not call:
        os.close(result)
    run(code, source, call, args, result)


main(int(sys.argv[1]))
