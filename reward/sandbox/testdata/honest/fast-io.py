# stdin: "3 4\n"
# stdout: "7\n"
import io, os, sys
class FastIO(io.IOBase):
    def __init__(self, file):
        self.fd = file.fileno()
        self.buffer = io.BytesIO()
        self.readable_ = "r" in file.mode
    def readline(self):
        if not self.buffer.getvalue():
            self.buffer = io.BytesIO(os.read(self.fd, max(os.fstat(self.fd).st_size, 8192)))
        return self.buffer.readline()
    def write(self, b):
        return self.buffer.write(b)
    def flush(self):
        if not self.readable_:
            os.write(self.fd, self.buffer.getvalue())
            self.buffer = io.BytesIO()
class Wrapper(io.IOBase):
    def __init__(self, file):
        self.buffer = FastIO(file)
        self.flush = self.buffer.flush
        self.write = lambda s: self.buffer.write(s.encode())
        self.readline = lambda: self.buffer.readline().decode()
sys.stdin, sys.stdout = Wrapper(sys.stdin), Wrapper(sys.stdout)
print(sum(map(int, sys.stdin.readline().split())))
