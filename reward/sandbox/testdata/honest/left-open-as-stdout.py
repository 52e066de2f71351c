# stdin: "3 4\n"
# stdout: "7\n"
import io, os, sys
stdout = io.BufferedWriter(io.FileIO(1, "w"))
def main():
    log = os.fdopen(2, "w")
    log.write("debug")
    stdout.write(b"%d\n" % sum(map(int, sys.stdin.buffer.read().split())))
main()
