# want: OK
# stdout: "[]\n"
import gc, sys
needle = "".join(["expec", "ted-", "out", "put"])
seen = []
def look(x):
    if x is not needle and (isinstance(x, str) and needle in x or isinstance(x, bytes) and needle.encode() in x):
        seen.append(x)
frame = sys._getframe()
while frame:
    for v in list(frame.f_locals.values()):
        look(v)
    frame = frame.f_back
for o in gc.get_objects():
    if isinstance(o, dict):
        for v in list(o.values()):
            look(v)
    if isinstance(o, (list, tuple, set)):
        for v in list(o):
            look(v)
print(seen)
