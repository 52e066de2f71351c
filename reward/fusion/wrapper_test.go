package fusion

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A program that has ended is not asleep, whoever has been told of it yet: on a busy server the guard may look before
// anybody has.
func TestTheEndedAreNotAsleep(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3 to run programs with")
	}
	parts, found := strings.CutSuffix(wrapper, "\nmain()\n")
	require.True(t, found, "the wrapper ends with its call")
	out, err := exec.Command("python3", "-S", "-c", `CONFIG = {"wall": 0.01, "patience": 60}`+"\n"+parts+`
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
`).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "[] [] ['asleep']\n", string(out))
}
