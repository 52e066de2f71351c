//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-7879b91d/grpo/reward/sandbox/internal/proc"
)

// full is how many programs the soak of the strongest rung runs in the long form of the tests, which
// GRPO_SANDBOX_FULL asks for.
var full = func() int {
	text := os.Getenv("GRPO_SANDBOX_FULL")
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		panic(fmt.Sprintf("GRPO_SANDBOX_FULL is %q, expected a number of programs, such as 20000", text))
	}
	return n
}()

// size is how many programs a test runs: short in the short form, full/share in the long form if that is more.
func size(short, share int) int { return max(short, full/share) }

// soakPrograms are programs of the soak and how each must end.
var soakPrograms = []struct {
	code   string
	want   Status
	stdout string // %d is twice the input
}{
	{"print(int(input()) * 2)", OK, "%d\n"},
	{"n = int(input())\nprint(sum(2 for _ in range(n)))", OK, "%d\n"},
	{"import sys\nsys.stdout.write(str(2 * int(sys.stdin.read())) + '\\n')", OK, "%d\n"},
	{"print(int(input()) * 2)\n1/0", RTE, "%d\n"},
	{"try:\n    open('left', 'w').write('x' * 100)\nexcept OSError:\n    pass\nprint(int(input()) * 2)", OK, "%d\n"},
	{"try:\n    f = open('big', 'wb')\n    while f.write(bytes(1 << 20)): pass\nexcept OSError:\n    pass\nraise OSError", RTE, ""},
	{"import os\nos._exit(0)", OK, ""},
	{"def f(:", CE, ""},
	{"import os, threading\nthreading.Thread(target=lambda: print(2 * int(input()))).start()", OK, "%d\n"},
	{"import os\nos.abort()", RTE, ""},
}

var slowPrograms = []struct {
	code string
	want Status
}{
	{"while True: pass", TLE},
	{"import time; time.sleep(100)", TLE},
	{"while True: print('x' * 1000)", OLE},
	{"x = []\nwhile True: x.append(bytearray(1 << 20))", MLE},
}

// TestSoak runs many programs while cells and supervisors are killed and descriptors run out. A few runs may
// return errors of the machine, but none a wrong verdict, and nothing may be left behind.
func TestSoak(t *testing.T) {
	t.Run("strongest", func(t *testing.T) { soak(t, 0, size(60, 1)) })
	for _, rung := range []Rung{RungUID, RungLandlock} { // whose scratch directories are the machine's
		t.Run(rung.String(), func(t *testing.T) { soak(t, rung, size(20, 5)) })
	}
}

func soak(t *testing.T, rung Rung, n int) {
	p := openPool(t, rung, 2)
	t.Setenv("TMPDIR", "/proc/no/room/left") // an open pool makes no more files there
	expectHonest(t, p)
	limits := Limits{CPU: 200 * time.Millisecond, Wall: 600 * time.Millisecond, Memory: 64 << 20, Output: 1 << 20}
	before := resources(t)
	const workers = 4
	each := n / workers
	var runs, infra atomic.Int64
	var wg sync.WaitGroup
	faults, injected := make(chan bool, each*workers), make(chan int)
	go func() { injected <- injectFaults(p, faults) }()
	for w := range workers {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(w)))
			for range each {
				err := soakOnce(t, p, random, limits)
				var failed *InfraError
				if errors.As(err, &failed) {
					infra.Add(1)
				} else if err != nil {
					t.Error(err)
				}
				if runs.Add(1)%20 == 0 {
					faults <- true
				}
			}
		})
	}
	wg.Wait()
	close(faults)
	t.Logf("%d runs, %d faults, %d failures of the machine", runs.Load(), <-injected, infra.Load())
	if infra.Load()*100 > runs.Load() {
		t.Errorf("%d of %d runs failed with the machine", infra.Load(), runs.Load())
	}
	for range 4 {
		expectHonest(t, p)
	}
	expectNoSurvivors(t, p)
	expectNothingMore(t, p, before)
	all, room := processTree(p.factory.(*cells).supervisor.Pid()), p.factory.(*cells).room
	p.Close()
	expectGone(t, all)
	expectNoGroups(t, os.Getpid())
	if room != nil {
		if _, err := os.Lstat(room.Dir); err == nil {
			t.Errorf("%s is still there", room.Dir)
		}
	}
}

// expectNothingMore compares what the pool holds after the soak with what it held before.
func expectNothingMore(t *testing.T, p *Pool, before resourceUse) {
	t.Helper()
	after := resources(t)
	if after.mounts != before.mounts {
		t.Errorf("%d mounts, before %d", after.mounts, before.mounts)
	}
	if after.descriptors > before.descriptors+2*3 { // a second cell may be there now
		t.Errorf("%d descriptors, before %d", after.descriptors, before.descriptors)
	}
	if after.heap > before.heap+16<<20 {
		t.Errorf("%d MiB of heap, before %d", after.heap>>20, before.heap>>20)
	}
	supervisor := p.factory.(*cells).supervisor.Pid()
	if fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", supervisor)); err != nil || len(fds) > 16 {
		t.Errorf("the supervisor has %d descriptors, %v", len(fds), err)
	}
}

// soakOnce runs one program of the soak and checks its verdict.
func soakOnce(t *testing.T, p *Pool, random *rand.Rand, limits Limits) error {
	n := random.IntN(1000)
	prog := soakPrograms[random.IntN(len(soakPrograms))]
	if random.IntN(100) == 0 {
		slow := slowPrograms[random.IntN(len(slowPrograms))]
		prog.code, prog.want, prog.stdout = slow.code, slow.want, "anything"
	}
	in := []Input{{Stdin: []byte(strconv.Itoa(n))}}
	return p.Run(t.Context(), strconv.Itoa(n%5), Program{Code: prog.code}, in, limits, func(_ int, r Result) bool {
		want := prog.stdout
		if strings.Contains(want, "%d") {
			want = fmt.Sprintf(want, 2*n)
		}
		if r.Status != prog.want || want != "anything" && string(r.Stdout) != want {
			t.Errorf("%q on %d ended with %v (signal %d, %v of processor, %v) and printed %.80q: %s",
				prog.code, n, r.Status, r.Signal, r.CPU, r.Wall, r.Stdout, r.Stderr)
		}
		return true
	})
}

// injectFaults repeatedly kills a cell, a test or the supervisor, or uses up the descriptors.
func injectFaults(p *Pool, when <-chan bool) (faults int) {
	random := rand.New(rand.NewPCG(2, 2))
	for range when {
		time.Sleep(time.Duration(random.IntN(5000)) * time.Microsecond) // in the middle of something
		faults++
		k := p.factory.(*cells)
		k.mu.Lock()
		supervisor := 0
		if k.supervisor != nil {
			supervisor = k.supervisor.Pid()
		}
		k.mu.Unlock()
		switch random.IntN(6) {
		case 0:
			if supervisor > 0 {
				unix.Kill(supervisor, unix.SIGKILL)
			}
		case 1:
			exhaustDescriptors(20 * time.Millisecond)
		default:
			if cells := proc.Children(supervisor); supervisor > 0 && len(cells) > 0 {
				victim := cells[random.IntN(len(cells))]
				if tests := proc.Children(victim); len(tests) > 0 && random.IntN(2) == 0 {
					victim = tests[0] // the process of a test, killed from outside
				}
				unix.Kill(victim, unix.SIGKILL)
			}
		}
	}
	return faults
}

// exhaustDescriptors uses up the file descriptors of this process for a while.
func exhaustDescriptors(d time.Duration) {
	var was unix.Rlimit
	if unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &was) != nil {
		return
	}
	unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: was.Max}, nil)
	time.Sleep(d)
	unix.Prlimit(0, unix.RLIMIT_NOFILE, &was, nil)
}

type resourceUse struct {
	descriptors, mounts int
	heap                uint64
}

func resources(t *testing.T) (h resourceUse) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Skip(err)
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return resourceUse{len(fds), bytes.Count(mounts, []byte("\n")), m.HeapAlloc}
}

// expectGone waits until the processes have ended, reaped or not.
func expectGone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		deadline := time.Now().Add(time.Minute)
		for alive(pid) {
			if time.Now().After(deadline) {
				t.Errorf("process %d is still there", pid)
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func alive(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(text), ") Z ") && !strings.Contains(string(text), ") X ")
}

// expectNoGroups looks for control groups that a process has left.
func expectNoGroups(t *testing.T, pid int) {
	t.Helper()
	m, err := findMemoryGroups()
	if err != nil {
		return
	}
	if left, _ := filepath.Glob(filepath.Join(m.parent, fmt.Sprintf("%s%d-*", groupPrefix, pid))); len(left) > 0 {
		t.Errorf("control groups are left: %v", left)
	}
}

// processTree is a supervisor with its zygotes and their tests.
func processTree(supervisor int) []int {
	all := []int{supervisor}
	for _, zygote := range proc.Children(supervisor) {
		all = append(all, zygote)
		all = append(all, proc.Children(zygote)...)
	}
	return all
}

// TestKilled: when the process that holds the pool is killed during runs, all the processes that it has
// started end with it, however busy they are.
func TestKilled(t *testing.T) {
	t.Parallel()
	if os.Getenv("SANDBOX_TEST_VICTIM") != "" {
		p := openPool(t, 0, 2)
		for range 2 {
			go p.Run(t.Context(), "g", Program{Code: "while True: pass"}, make([]Input, 1), Limits{CPU: 10 * time.Minute},
				func(int, Result) bool { return true })
		}
		supervisor := p.factory.(*cells).supervisor.Pid()
		for deadline := time.Now().Add(time.Minute); len(processTree(supervisor)) < 5 && time.Now().Before(deadline); {
			time.Sleep(5 * time.Millisecond)
		}
		fmt.Printf("supervisor %d\n", supervisor)
		time.Sleep(10 * time.Minute)
		return
	}
	openPool(t, 0, 1).Close() // skips where there is nothing to test
	cmd, says := victim(t)
	var supervisor int
	if _, err := fmt.Fscanf(says, "supervisor %d\n", &supervisor); err != nil {
		t.Fatal(err)
	}
	all := processTree(supervisor)
	if len(all) != 5 {
		t.Fatalf("a busy pool of two has the processes %v, want a supervisor, two zygotes and two tests", all)
	}
	cmd.Process.Kill()
	cmd.Wait()
	expectGone(t, all)
	expectNoGroups(t, cmd.Process.Pid) // which sweeps
}
