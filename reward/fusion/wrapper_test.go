package fusion

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// wrapped is what a script prints that is appended to the functions of the wrapper, with this configuration.
func wrapped(t *testing.T, config, script string) string {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3 to run programs with")
	}
	parts, found := strings.CutSuffix(wrapper, "\nmain()\n")
	require.True(t, found, "the wrapper ends with its call")
	cmd := exec.Command("python3", "-S", "-c", "CONFIG = "+config+"\n"+parts+script)
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// A program that has ended is not asleep, even if nobody has waited for it: on a busy server the guard may check before
// that.
func TestTheEndedAreNotAsleep(t *testing.T) {
	out := wrapped(t, `{"wall": 0.01, "patience": 60}`, `
started = []  # one that is forgotten may be reaped when the next begins

def start(*command):
    started.append(subprocess.Popen(command, start_new_session=True))
    return started[-1].pid

def judged(pid):
    late = []
    guard(pid, threading.Event(), late)
    return late

unreaped, reaped = start("true"), start("true")
os.waitid(os.P_PID, unreaped, os.WEXITED | os.WNOWAIT)
os.waitpid(reaped, 0)
print(judged(unreaped), judged(reaped), judged(start("sleep", "60")))
`)
	require.Equal(t, "[] [] ['asleep']\n", out)
}

// A busy server is to blame only if the program has not used up its processor time by then.
func TestTheBusyServersPrograms(t *testing.T) {
	out := wrapped(t, `{"wall": 0.1, "patience": 0.5, "memory": 1 << 30, "output": 1 << 20, "environment": {}}`, `
def waiting(pid):
    return True, time.monotonic() - began  # for a processor, all the time

for name, text in {"input": "", "program.py": "while True: pass"}.items():
    with open(name, "w") as file:
        file.write(text)
with open("streams", "w+b") as streams:
    for CONFIG["cpu"] in 1e-3, 100:
        began = time.monotonic()
        try:
            frame = run(streams, streams, streams)
            print(frame["cpu"] > CONFIG["cpu"], frame["late"])
        except TimeoutError as err:
            print(err)
`)
	require.Equal(t, "True 1\nthe program got no processor for most of 0.5 seconds\n", out)
}
