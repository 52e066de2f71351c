//go:build linux && (amd64 || arm64)

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/reward/sandbox/internal/proc"
)

// TestCancelledAsItBegins: a run that is cancelled while its process is being made leaves no process behind on a rung without
// namespaces that end with the cell. A failure would not show every time, so the long form tries more often.
func TestCancelledAsItBegins(t *testing.T) {
	race.SkipCovered(t)
	t.Parallel()
	for _, rung := range []Rung{RungLandlock, RungUID} {
		t.Run(rung.String(), func(t *testing.T) {
			t.Parallel()
			p := openPool(t, rung, 1)
			left := 0
			for range size(6, 10) {
				expectHonest(t, p) // so that the program needs no new cell: its process is there sooner
				program := cancelAtBirth(t, p)
				end := time.Now().Add(20 * time.Second)
				for alive(program) && time.Now().Before(end) {
					time.Sleep(time.Millisecond)
				}
				if alive(program) {
					left++
					if err := syscall.Kill(program, syscall.SIGKILL); err != nil {
						t.Error(err)
					}
				}
			}
			if left > 0 {
				t.Errorf("%d programs have outlived their cells", left)
			}
		})
	}
}

// cancelAtBirth cancels a run as soon as its process is visible, and returns the process.
func cancelAtBirth(t *testing.T, p *Pool) (process int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- p.Run(ctx, "g", Program{Code: "import time\nwhile True: time.sleep(1)"}, make([]Input, 1), Limits{Wall: time.Minute},
			func(int, Result) bool { return true })
	}()
	supervisor := p.factory.(*cells).supervisor.Pid()
	for deadline := time.Now().Add(time.Minute); process == 0 && time.Now().Before(deadline); {
		if zygote := proc.OnlyChild(supervisor); zygote != 0 {
			process = proc.OnlyChild(zygote)
		}
	}
	cancel()
	if err := <-ended; process == 0 || !errors.Is(err, context.Canceled) {
		t.Fatalf("the run of process %d ended with %v", process, err)
	}
	return process
}

// TestKilledWithoutCells: programs that are ordinary processes, too, end with the process that holds the pool.
func TestKilledWithoutCells(t *testing.T) {
	t.Parallel()
	if os.Getenv("SANDBOX_TEST_VICTIM") != "" {
		p := openPool(t, RungUnsafe, 1)
		go p.Run(t.Context(), "g", Program{Code: "import time\nwhile True: time.sleep(1)"}, make([]Input, 1), Limits{Wall: 10 * time.Minute},
			func(int, Result) bool { return true })
		var children []int
		for deadline := time.Now().Add(time.Minute); len(children) == 0 && time.Now().Before(deadline); {
			children = proc.Children(os.Getpid())
		}
		fmt.Println("children", children[0])
		time.Sleep(10 * time.Minute)
		return
	}
	openPool(t, RungUnsafe, 1).Close() // skips where there is nothing to test
	cmd, says := victim(t)
	var program int
	if _, err := fmt.Fscanf(says, "children %d\n", &program); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	expectGone(t, []int{program})
}

// victim runs a test again in a process that is killed when the test ends at the latest, and returns its standard output.
func victim(t *testing.T) (cmd *exec.Cmd, says io.Reader) {
	t.Helper()
	cmd = exec.Command("/proc/self/exe", "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "SANDBOX_TEST_VICTIM=1")
	says, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd, says
}
