"""Runs the program of a request in this process and ends it. It follows program.py in one and the same
module, and is given the descriptor that tells how far it got, followed by the value of a call."""


def main(result):
    with open("request", "rb") as f:
        source, call, args = read_parts(f.read())
    code = compiled(source, result)
    if not call:
        os.close(result)
    run(code, source, call, args, result)


main(int(sys.argv[1]))
