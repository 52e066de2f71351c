package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// TestManyConversations: conversations of one pool wait for places, leave nothing behind, and end with the pool.
func TestManyConversations(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // where nobody else leaves anything, or takes it away
	j, pool := openJudge(t, 1, 2)
	t.Run("wait", func(t *testing.T) { conversationsWait(t, j) })
	t.Run("soak", func(t *testing.T) { nothingIsLeft(t, j) })
	t.Run("broken", func(t *testing.T) { brokenMachines(t, j, pool) })
}

// nothingIsLeft: many calls of many conversations leave no process, file or descriptor behind.
func nothingIsLeft(t *testing.T, j *reward.Judge) {
	calls := max(soak, 8)
	p := data.Problem{ID: "p", Kind: data.Stdin}.WithTests(data.Test{Stdin: "3\n", Stdout: "6\n", Public: true})
	programs := []struct{ tool, code, want string }{
		{"python", "x = 2", "(no output)"},
		{"python", "x = 2\nopen('/tmp/file', 'w').write('x' * 1000)", "1000"},
		{"python", "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True).start()", "(no output)"},
		{"python", "import os; os._exit(1)", "[the interpreter ended"},
		{"python", "print('y' * 100000)", "left out"},
		{"python", "os.kill(os.getpid(), 15)", "NameError"},
		{"trace", "x = 3\nprint(x)", "x = 3"},
		{"trace", "import os\nos._exit(2)", "exit code 2"},
		{"run_tests", "print(2 * int(input()))", "1 of 1 public tests pass"},
		{"run_tests", "open('/tmp/file', 'w')", "0 of 1 public tests pass"},
	}
	converse := func(n int) {
		o := shortLimits(j)
		o.Group = strconv.Itoa(n % 7)
		k, err := Open(t.Context(), &p, o) // openKit would have the test keep it to its end
		if err != nil {
			t.Error(err)
			return
		}
		for i := range 4 {
			c := programs[(n*3+i*7)%len(programs)]
			if text := ask(t, k, c.tool, map[string]any{"code": c.code}); !strings.Contains(text, c.want) {
				t.Errorf("%s %q: want %q in %q", c.tool, c.code, c.want, text)
			}
		}
		k.Close()
	}
	converse(0)
	before := remains(t)
	most := max(before.processes, 1+2*(1+2))
	var next atomic.Int64
	var wait sync.WaitGroup
	for range 3 {
		wait.Go(func() {
			for n := int(next.Add(1)); n <= calls/4 && !t.Failed(); n = int(next.Add(1)) {
				converse(n)
			}
		})
	}
	wait.Wait()
	after := remains(t)
	t.Logf("%d calls: %d processes (%d before), %d descriptors (%d), heap %d KiB (%d)", calls, after.processes, before.processes,
		after.descriptors, before.descriptors, after.heap>>10, before.heap>>10)
	require.LessOrEqual(t, after.descriptors, before.descriptors+2*3, "descriptors: a cell that was not there before has three")
	require.LessOrEqual(t, after.processes, most, "processes: a supervisor, and cells of two slots and three places")
	require.Less(t, after.heap, before.heap+16<<20, "heap")
	require.Equal(t, before.files, after.files, "temporary files")
}

type left struct {
	descriptors, processes int
	files                  string
	heap                   uint64
}

// conversationsWait: more conversations than places take turns, and each sees only its own state.
func conversationsWait(t *testing.T, j *reward.Judge) {
	var wait sync.WaitGroup
	for i := range 3 {
		k := openKit(t, data.Problem{}, Options{Judge: j, Group: string(rune('a' + i))})
		wait.Go(func() {
			defer k.Close()
			text := run(t, k, "import os\nfound = 'secret' in globals(), os.path.exists('/tmp/secret')\n"+
				"secret = 1\nopen('/tmp/secret', 'w').close()\nfound")
			if text != "(False, False)" {
				t.Errorf("conversation %d found %s", i, text)
			}
			if text := run(t, k, "secret"); text != "1" {
				t.Errorf("conversation %d has lost its state: %s", i, text)
			}
		})
	}
	wait.Wait()

	k := openKit(t, data.Problem{}, Options{Judge: j})
	for range 2 {
		run(t, openKit(t, data.Problem{}, Options{Judge: j}), "1")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := k.Call(ctx, "python", json.RawMessage(`{"code":"1"}`))
	require.ErrorIs(t, err, context.DeadlineExceeded, "a third conversation waits while two have the slots")
}

// brokenMachines: failures of the machine are errors, never answers.
func brokenMachines(t *testing.T, j *reward.Judge, pool *sandbox.Pool) {
	k := openKit(t, data.Problem{Kind: data.Stdin}.WithTests(data.Test{Stdin: "1", Stdout: "1", Public: true}), Options{Judge: j})
	require.Equal(t, "1", run(t, k, "1"))
	pool.Close()
	for _, tool := range k.Tools() {
		_, err := tool.Call(t.Context(), json.RawMessage(`{"code":"1"}`))
		require.ErrorIs(t, err, sandbox.ErrClosed)
	}
	require.Equal(t, 3, k.Stats().Failed)
}

// remains is what this process holds.
func remains(t *testing.T) (l left) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	l.descriptors = len(fds)
	files, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	for _, f := range files {
		if strings.HasPrefix(f.Name(), "grpo-") {
			l.files += f.Name() + " "
		}
	}
	l.processes = len(descendants(os.Getpid()))
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	l.heap = m.HeapAlloc
	return l
}

// descendants are the children of a process, their children, and so on.
func descendants(pid int) (all []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list) // the thread may have ended
		for _, field := range strings.Fields(string(text)) {
			child, _ := strconv.Atoi(field)
			all = append(append(all, child), descendants(child)...)
		}
	}
	return all
}
