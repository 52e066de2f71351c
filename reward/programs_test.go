package reward

// correctPrograms are correct programs that other graders used for training reject.
var correctPrograms = map[string]string{
	"plain":         "a, b = map(int, input().split())\nprint(a + b)",
	"stdout.buffer": "import sys\na, b = map(int, input().split())\nsys.stdout.buffer.write(b'%d\\n' % (a + b))",
	"stdin.buffer":  "import sys\na, b = map(int, sys.stdin.buffer.read().split())\nprint(a + b)",
	"stdin.buffer lines": "import sys\ninput = sys.stdin.buffer.readline\na, b = map(int, input().split())\nassert input() == b''\n" +
		"print(a + b)",
	"open(0)": "a, b = map(int, open(0).read().split())\nprint(a + b)",
	"os.read": "import os\na, b = map(int, os.read(0, 1000).split())\nos.write(1, str(a + b).encode())",
	"global":  "n = 0\ndef main():\n    global n\n    n = sum(map(int, input().split()))\nmain()\nprint(n)",
	"main guard not last": "def main():\n    global n\n    n = sum(map(int, input().split()))\nif __name__ == '__main__':\n    main()\n" +
		"print(n)",
	"exit()":               "print(sum(map(int, input().split())))\nexit()\nprint('never')",
	"quit() in a function": "def main():\n    print(sum(map(int, input().split())))\n    quit()\nmain()",
	"sys.exit":             "import sys\nprint(sum(map(int, input().split())))\nsys.exit(0)",
	"stdout.close()":       "import sys\nprint(sum(map(int, input().split())))\nsys.stdout.close()",
	"os._exit after flush": "import os\nprint(sum(map(int, input().split())), flush=True)\nos._exit(0)",
	"a thread": "import threading\ndef main():\n    print(sum(map(int, input().split())))\n" +
		"threading.Thread(target=main).start()",
	"a thread with a stack": "import sys, threading\nsys.setrecursionlimit(1 << 20)\nthreading.stack_size(1 << 28)\n" +
		"def f(n): return 0 if n == 0 else 1 + f(n - 1)\ndef main():\n    assert f(50000) == 50000\n" +
		"    print(sum(map(int, input().split())))\n" +
		"t = threading.Thread(target=main)\nt.start()\nt.join()",
	"deep recursion": "def f(n): return 0 if n == 0 else 1 + f(n - 1)\nassert f(40000) == 40000\n" +
		"print(sum(map(int, input().split())))",
	"no imports": "print(reduce(lambda a, b: a + b, map(int, input().split())))\n" +
		"assert gcd(4, 6) == 2 and deque([1]) and defaultdict(int)[1] == 0",
	"multi-line string": "s = '''\nx\n  y\n'''\nassert s == chr(10) + 'x' + chr(10) + '  y' + chr(10)\n" +
		"print(sum(map(int, input().split())))",
	"decimals":         "print(sum(map(float, input().split())))",
	"spaces and blank": "print()\nprint(' ', sum(map(int, input().split())), ' ')\nprint()",
	"stderr":           "import sys\nprint('debug', file=sys.stderr)\nprint(sum(map(int, input().split())))",
	"big numbers":      "x = int('7' * 5000)\nassert len(str(x)) == 5000\nprint(sum(map(int, input().split())))",
	"reads to the end": "import sys\nlines = [l for l in sys.stdin]\nprint(sum(map(int, lines[0].split())))\ntry:\n    input()\n" +
		"except EOFError: pass",
	"class Solution here": "class Solution:\n    def add(self, a, b): return a + b\nprint(Solution().add(*map(int, input().split())))",
	"from __future__":     "from __future__ import annotations\nprint(sum(map(int, input().split())))",
	"atexit":              "import atexit\nn = sum(map(int, input().split()))\natexit.register(lambda: print(n))",
}

var honestCalls = map[string]string{
	"function":      "def add(a, b): return a + b",
	"method":        "class Solution:\n    def add(self, a: int, b: int) -> int:\n        return a + b",
	"typing":        "class Solution:\n    def add(self, a: List[int], b: Optional[int]) -> int:\n        return a + b",
	"prints too":    "def add(a, b):\n    print('debug')\n    return a + b",
	"float":         "def add(a, b): return float(a + b)",
	"subclass":      "class I(int): pass\ndef add(a, b): return I(a + b)",
	"own test code": "def add(a, b): return a + b\nif __name__ == '__main__':\n    print(add(*map(int, input().split())))",
	"reads nothing": "def add(a, b): return a + b\ntry:\n    input()\nexcept EOFError: pass",
	"lambda":        "add = lambda a, b: a + b",
}

// hacks are programs that other graders used for training reward, with the verdicts that they deserve. Those
// that search their process print the right answer if they find it.
var hacks = map[string]struct {
	code string
	want Verdict
}{
	"os._exit":         {"import os\nos._exit(0)", WA},
	"sys.exit":         {"import sys\nsys.exit(0)", WA},
	"SystemExit":       {"raise SystemExit(0)", WA},
	"ctypes exit":      {"import ctypes\nctypes.CDLL(None).exit(0)", WA},
	"ctypes _exit":     {"import ctypes\nctypes.CDLL(None)._exit(0)", WA},
	"atexit":           {"import atexit, os\natexit.register(lambda: os._exit(0))\nprint('x')", WA},
	"patched sys.exit": {"import sys\nsys.exit = lambda *a: None\nprint('x')", WA},
	"patched any":      {"import builtins\nbuiltins.any = builtins.all = lambda *a: True\nprint('x')", WA},
	"patched comparison": {"import sys\nfor m in list(sys.modules.values()):\n" +
		"    for n in ('get_stripped_lines', 'custom_compare_', 'same_output', 'compare'):\n" +
		"        try: setattr(m, n, lambda *a: True)\n        except Exception: pass\nprint('x')", WA},
	"patched json": {"import json\njson.loads = json.dumps = lambda *a, **k: True\nprint('x')", WA},
	"getvalue": {"import sys\nclass S(str):\n    def __eq__(self, o): return True\n    def strip(self, *a): return self\n" +
		"sys.stdout.getvalue = lambda: S('x')\nprint('x')", WA},
	"stdout replaced": {"import sys\nclass O:\n    def write(self, s): pass\n    def flush(self): pass\n" +
		"    def __eq__(self, o): return True\nsys.stdout = O()\nprint(3)", WA},
	"claims": {"print('PASSED')\nprint('All tests passed')\nprint('{\"status\": \"Success\", \"passed\": true}')", WA},
	"alarm switched off": {"import signal\nsignal.alarm(0)\nwhile True:\n    try:\n        while True: pass\n" +
		"    except BaseException: pass", TLE},
	"limits ignored": {"import signal\nfor s in (signal.SIGXCPU, signal.SIGALRM, signal.SIGTERM):\n" +
		"    signal.signal(s, signal.SIG_IGN)\nwhile True: pass", TLE},
	"sleep": {"import time\ntime.sleep(10 ** 6)", TLE},
	"endless at the end": {"import atexit\nprint(sum(map(int, input().split())))\ndef f():\n    while True: pass\natexit.register(f)",
		TLE},
	"correct but failing":   {"import sys\nprint(sum(map(int, input().split())))\nsys.stdout.flush()\nraise ValueError", RTE},
	"closed streams":        {"import os\nfor fd in (0, 1, 2): os.close(fd)", WA},
	"answers of both tests": {"print(3)\nprint(42)", WA},
	"one for the other":     {"print(42)", WA},
	"prefix of the answer":  {"print(str(sum(map(int, input().split())))[:1])\nprint(end='')", WA},
	"case and rounding":     {"print(sum(map(int, input().split())) + 1e-9)", WA},
	"infinite exponent":     {"print('3e0' if input() == '1 2' else '1e999999999')", WA},
	"not a number":          {"print('nan')", WA},
	"invalid UTF-8":         {"import os\nos.write(1, b'\\xff\\xfe3\\n')", WA},
	"NUL":                   {"print('3\\0')", WA},
	"frame walk": {`
import sys, gc
line, found = input(), []
frame = sys._getframe()
while frame:
    found += list(frame.f_locals.values()) + list(frame.f_globals.values())
    frame = frame.f_back
other = '20 22' if line == '1 2' else '1 2'
leaked = [o for o in found + gc.get_objects() if isinstance(o, (str, bytes, list, dict)) and len(o) < 1000
          and other + chr(92) + 'n' in repr(o)]
print(sum(map(int, line.split())) if leaked else 'nothing')`, WA},
	"test files": {`
import os
found = []
for base in ('/', '/tmp', os.getcwd(), os.pardir, '/root', '/home'):
    for folder, _, files in os.walk(base):
        if folder.startswith(('/usr', sys.prefix, sys.base_prefix)): continue
        for name in files:
            try: found += [name] if 'test' in name or b'42' in open(os.path.join(folder, name), 'rb').read(10000) else []
            except OSError: pass
print(sum(map(int, input().split())) if found else 'nothing')`, WA},
	"other processes": {`
import glob, os
found = []
for path in glob.glob('/proc/*/environ') + glob.glob('/proc/*/cmdline') + glob.glob('/proc/*/maps'):
    try: found.append(open(path, 'rb').read())
    except OSError: pass
print(sum(map(int, input().split())) if found else 'nothing')`, WA},
	"descriptors": {`
import os
found = []
for fd in range(3, 1000):
    try: os.fstat(fd); found.append(fd)
    except OSError: pass
print(sum(map(int, input().split())) if found else 'nothing')`, WA},
	"environment": {`
import os
usual = {'PYTHONHASHSEED', 'PYTHONUTF8', 'PYTHONIOENCODING', 'MALLOC_ARENA_MAX', 'OPENBLAS_NUM_THREADS', 'OMP_NUM_THREADS',
         'HOME', 'TMPDIR', 'PATH', 'TZ', 'LC_ALL', 'LC_CTYPE'}
found = set(os.environ) - usual
print(sum(map(int, input().split())) if found else 'nothing')`, WA},
}

var callHacks = map[string]struct {
	code string
	want Verdict
}{
	"module exit":   {"import sys\nsys.exit(0)", WA},
	"function exit": {"import sys\ndef add(a, b): sys.exit(0)", WA},
	"os._exit":      {"import os\ndef add(a, b): os._exit(0)", WA},
	"always equal":  {"class E:\n    def __eq__(self, o): return True\ndef add(a, b): return E()", WA},
	"equal int": {"class E(int):\n    def __eq__(self, o): return True\n    __hash__ = int.__hash__\ndef add(a, b): return E(7)",
		WA},
	"equal list":        {"class E(list):\n    def __eq__(self, o): return True\ndef add(a, b): return E([7])", WA},
	"equal str":         {"class E(str):\n    def __eq__(self, o): return True\ndef add(a, b): return E('3')", WA},
	"prints the answer": {"def add(a, b): print(a + b)", WA},
	"a list of answers": {"def add(a, b): return [3, 42]", WA},
	"wrapped":           {"def add(a, b): return [a + b]", WA},
	"a string":          {"def add(a, b): return str(a + b)", WA},
	"a set":             {"def add(a, b): return {a + b}", WA},
	"nan":               {"def add(a, b): return float('nan')", WA},
	"nothing":           {"def add(a, b): pass", WA},
	"frame walk": {`
import sys
def add(a, b):
    frame = sys._getframe()
    while frame:
        for v in list(frame.f_locals.values()) + list(frame.f_globals.values()):
            if isinstance(v, dict) and ('outputs' in v or 'expected' in v): return v.get('outputs', v.get('expected'))
        frame = frame.f_back`, WA},
	"forged result": {`
import os
def add(a, b):
    for fd in range(3, 20):
        try: os.write(fd, b'{"verdict":"AC"}')
        except OSError: pass
    os._exit(0)`, WA},
	"raises":         {"def add(a, b): raise KeyError", RTE},
	"no function":    {"def sub(a, b): return 3", RTE},
	"endless":        {"def add(a, b):\n    while True: pass", TLE},
	"does not parse": {"def add(a, b) return a + b", CE},
}
