# stdin: "3 4\n"
# stdout: "7\n"
# cpu: 2000
import os, tempfile
with tempfile.TemporaryFile() as f, tempfile.NamedTemporaryFile("w+") as named, tempfile.TemporaryDirectory() as d:
    f.write(input().encode())
    f.seek(0)
    named.write(f.read().decode())
    named.flush()
    with open(os.path.join(d, "copy"), "w") as copy:
        copy.write(open(named.name).read())
    a, b = open(os.path.join(d, "copy")).read().split()
fd, path = tempfile.mkstemp(dir=os.path.expanduser("~"))
os.write(fd, b"%d" % (int(a) + int(b)))
os.close(fd)
print(open(path).read())
os.unlink(path)
assert os.listdir() == []
