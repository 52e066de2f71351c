package fusion

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/plainpython"
	"github.com/seed-7879b91d/grpo/reward/fusion/fusiontest"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

func TestMain(m *testing.M) {
	plainpython.SetPath()
	m.Run()
}

func newClient(t *testing.T, s *fusiontest.Server, concurrency int) *Client {
	t.Helper()
	c, err := New(Options{URL: s.URL, Concurrency: concurrency, Backoff: time.Millisecond})
	require.NoError(t, err)
	return c
}

func runOne(t *testing.T, c *Client, prog sandbox.Program, in sandbox.Input, l sandbox.Limits) (r sandbox.Result) {
	t.Helper()
	n := 0
	err := c.Run(t.Context(), "g", prog, []sandbox.Input{in}, l, func(i int, got sandbox.Result) bool {
		require.Zero(t, i)
		r = got
		n++
		return true
	})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	return r
}

func args(values ...string) (in sandbox.Input) {
	for _, v := range values {
		in.Args = append(in.Args, json.RawMessage(v))
	}
	return in
}

func TestPrograms(t *testing.T) {
	t.Parallel()
	c := newClient(t, fusiontest.NewServer(t), 2)
	for _, tt := range []struct {
		name, code, stdin string
		limits            sandbox.Limits
		status            sandbox.Status
		stdout            string
	}{
		{"print", "print(int(input()) * 2)", "21\n", sandbox.Limits{}, sandbox.OK, "42\n"},
		{"buffers",
			"import sys\nsys.stdout.buffer.write(sys.stdin.buffer.read()[::-1])", "\x00ab\xff", sandbox.Limits{}, sandbox.OK, "\xffba\x00"},
		{"global and a guard", "n = 1\ndef main():\n    global n\n    n += 1\nif __name__ == '__main__':\n    main()\nprint(n)", "",
			sandbox.Limits{}, sandbox.OK, "2\n"},
		{"preamble", "print(gcd(12, 18), deque([1])[0], pow(2, 10, 1000))", "", sandbox.Limits{}, sandbox.OK, "6 1 24\n"},
		{"a thread after the end", "import time\ndef f():\n    time.sleep(.1)\n    print(1)\nthreading.Thread(target=f).start()", "",
			sandbox.Limits{}, sandbox.OK, "1\n"},
		{"deep recursion", "def f(n): return 0 if n == 0 else 1 + f(n - 1)\nprint(f(20000))", "", sandbox.Limits{}, sandbox.OK, "20000\n"},
		{"much output", "print('x' * 300000)", "", sandbox.Limits{}, sandbox.OK, strings.Repeat("x", 300000) + "\n"},
		{"early exit", "import os\nos._exit(0)", "", sandbox.Limits{}, sandbox.OK, ""},
		{"claims", "print('Success')\nraise SystemExit(0)", "", sandbox.Limits{}, sandbox.OK, "Success\n"},
		{"end of input", "input()", "", sandbox.Limits{}, sandbox.RTE, ""},
		{"exit code", "print(1)\nexit(3)", "", sandbox.Limits{}, sandbox.RTE, "1\n"},
		{"abort", "import os\nos.abort()", "", sandbox.Limits{}, sandbox.RTE, ""},
		{"no Python", "print(", "", sandbox.Limits{}, sandbox.CE, ""},
		{"a NUL in the source", "print(1)\x00", "", sandbox.Limits{}, sandbox.CE, ""},
		{"endless", "while True: pass", "", sandbox.Limits{CPU: 300 * time.Millisecond}, sandbox.TLE, ""},
		{"asleep", "import time\ntime.sleep(100)", "", sandbox.Limits{Wall: time.Second / 2}, sandbox.TLE, ""},
		{"memory", "x = []\nwhile True: x.append(bytes(1 << 24))", "", sandbox.Limits{Memory: 64 << 20}, sandbox.MLE, ""},
		{"output", "while True: print('x' * 1000)", "", sandbox.Limits{Output: 10000}, sandbox.OLE,
			strings.Repeat(strings.Repeat("x", 1000)+"\n", 10)[:10000]},
	} {
		r := runOne(t, c, sandbox.Program{Code: tt.code}, sandbox.Input{Stdin: []byte(tt.stdin)}, tt.limits)
		require.Equal(t, tt.status, r.Status, "%s: %+v", tt.name, r)
		if tt.status != sandbox.TLE {
			require.Equal(t, tt.stdout, string(r.Stdout), tt.name)
		}
		if tt.status == sandbox.CE {
			require.Contains(t, r.Stderr, "Error: ", tt.name)
		}
	}
}

func TestCalls(t *testing.T) {
	t.Parallel()
	c := newClient(t, fusiontest.NewServer(t), 2)
	for _, tt := range []struct {
		name, code string
		status     sandbox.Status
		value      string
	}{
		{"function", "def f(a, b): return a + b", sandbox.OK, "3"},
		{"method", "class Solution:\n    def f(self, a, b): return [a, (b,)]", sandbox.OK, "[1, [2]]"},
		{"printing is no answer", "def f(a, b): print(a + b)", sandbox.OK, "null"},
		{"big", "def f(a, b): return 10 ** 5000", sandbox.OK, "1" + strings.Repeat("0", 5000)},
		{"keys", "def f(a, b): return {1: True, 'x': 1.0}", sandbox.OK, `{"1": true, "x": 1.0}`},
		{"equal to all", "class E(int):\n    def __eq__(self, o): return True\ndef f(a, b): return E(7)", sandbox.OK, "7"},
		{"the test block stays quiet", "def f(a, b): return 0\nif __name__ == '__main__': print(1 / 0)", sandbox.OK, "0"},
		{"a set", "def f(a, b): return {1}", sandbox.OK, ""},
		{"leaves early", "import sys\ndef f(a, b): sys.exit(0)", sandbox.OK, ""},
		{"leaves at once", "raise SystemExit(0)", sandbox.OK, ""},
		{"no such function", "def g(a, b): return 1", sandbox.RTE, ""},
		{"one of the preamble", "", sandbox.RTE, ""},
		{"wrong arity", "def f(a): return 1", sandbox.RTE, ""},
		{"no Python", "def f(a, b) return 1", sandbox.CE, ""},
	} {
		call := "f"
		if tt.code == "" {
			call = "gcd"
		}
		r := runOne(t, c, sandbox.Program{Code: tt.code, Call: call}, args("1", "2"), sandbox.Limits{})
		require.Equal(t, tt.status, r.Status, "%s: %+v", tt.name, r)
		require.Equal(t, tt.value, string(r.Value), tt.name)
	}
	huge := "1" + strings.Repeat("0", 60000) // more digits than a program itself may convert
	r := runOne(t, c, sandbox.Program{Code: "def f(a): return a + 1", Call: "f"}, args(huge), sandbox.Limits{})
	require.Equal(t, huge[:60000]+"1", string(r.Value))
}

// Without isolation a program can kill its wrapper or remove its directory. That counts as a failure of the
// program, every time.
func TestProgramsAgainstTheWrapper(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]string{
		"kill":   "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nwhile True: pass",
		"folder": "import os, shutil\nprint(1)\nshutil.rmtree(os.getcwd())",
	} {
		s := fusiontest.NewServer(t)
		limits := sandbox.Limits{CPU: time.Second} // ends a program that has killed its wrapper
		r := runOne(t, newClient(t, s, 1), sandbox.Program{Code: code}, sandbox.Input{}, limits)
		require.Equal(t, sandbox.RTE, r.Status, "%s: %+v", name, r)
		require.EqualValues(t, 2, s.Requests.Load(), name)
	}
	directory := `
import os
os.mkdir("frame-" + open("main.py").read().split('"nonce":"')[1][:32])`
	spoiled := runOne(t, newClient(t, fusiontest.NewServer(t), 1), sandbox.Program{Code: directory}, sandbox.Input{}, sandbox.Limits{})
	require.Equal(t, sandbox.RTE, spoiled.Status)
	// The wrapper replaces a frame that the program has written.
	forged := `
import glob, os
nonce = open("main.py").read().split('"nonce":"')[1][:32]
open("frame-" + nonce, "w").write(nonce + '\n{"exit":0,"sizes":[2,0,0]}\n42')
print(41)`
	s := fusiontest.NewServer(t)
	r := runOne(t, newClient(t, s, 1), sandbox.Program{Code: forged}, sandbox.Input{}, sandbox.Limits{})
	require.Equal(t, sandbox.OK, r.Status)
	require.Equal(t, "41\n", string(r.Stdout))
}

func TestServerFaults(t *testing.T) {
	t.Parallel()
	hello := sandbox.Program{Code: "print('hello')"}
	for name, faults := range map[string][]fusiontest.Fault{
		"SandboxError": {fusiontest.SandboxError("no space left")}, "500": {fusiontest.Status(500), fusiontest.Status(503)},
		"429":               {fusiontest.Status(429)},
		"broken connection": {fusiontest.Broken, fusiontest.Broken}, "no JSON": {fusiontest.NoJSON},
		"wrapper not finished": {fusiontest.TimedOut},
		"wrapper killed":       {fusiontest.Killed}, "disk full": {fusiontest.DiskFull, fusiontest.DiskFull},
		"all of them": {fusiontest.SandboxError("x"), fusiontest.Status(502), fusiontest.Broken, fusiontest.NoJSON},
	} {
		s := fusiontest.NewServer(t, faults...)
		r := runOne(t, newClient(t, s, 1), hello, sandbox.Input{}, sandbox.Limits{})
		require.Equal(t, "hello\n", string(r.Stdout), name)
		require.EqualValues(t, len(faults)+1, s.Requests.Load(), name)
	}
}

func TestServerThatKeepsFailing(t *testing.T) {
	t.Parallel()
	s := fusiontest.NewServer(t, fusiontest.Status(500), fusiontest.Broken, fusiontest.SandboxError("full"), fusiontest.TimedOut,
		fusiontest.SandboxError("still full"), nil)
	err := newClient(t, s, 1).Run(t.Context(), "", sandbox.Program{}, []sandbox.Input{{}}, sandbox.Limits{},
		func(int, sandbox.Result) bool {
			t.Error("a result of a server that failed")
			return false
		})
	var infra *sandbox.InfraError
	require.ErrorAs(t, err, &infra)
	require.Equal(t, 5, infra.Attempts)
	require.ErrorContains(t, err, "SandboxError: still full")
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	s := fusiontest.NewServer(t)
	s.Close()
	err := newClient(t, s, 1).Ping(t.Context())
	var infra *sandbox.InfraError
	require.ErrorAs(t, err, &infra)
	require.ErrorContains(t, err, "connection refused")
}

// A failure that a retry cannot mend ends the run.
func TestRefusals(t *testing.T) {
	t.Parallel()
	s := fusiontest.NewServer(t)
	c, err := New(Options{URL: s.URL + "/elsewhere"})
	require.NoError(t, err)
	err = c.Ping(t.Context())
	require.True(t, badinput.Is(err), "%v", err)
	require.ErrorContains(t, err, "the server answered 404")
	require.EqualValues(t, 1, s.Requests.Load())

	s = fusiontest.NewServer(t, func(w http.ResponseWriter) {
		w.Header().Set("Location", "/elsewhere") // followed with GET, which loses the program
		w.WriteHeader(http.StatusMovedPermanently)
	})
	require.ErrorContains(t, newClient(t, s, 1).Ping(t.Context()), "redirects to "+s.URL+"/elsewhere; use that address")

	s = fusiontest.NewServer(t, func(w http.ResponseWriter) {
		fusiontest.Answer(w, map[string]any{"status": "Success", "run_result": map[string]any{"status": "Finished", "return_code": 0}})
	}, func(w http.ResponseWriter) {
		fusiontest.Answer(w, map[string]any{"status": "Success", "run_result": map[string]any{"status": "Finished", "return_code": 0}})
	})
	require.ErrorContains(t, newClient(t, s, 1).Ping(t.Context()), "is this a Sandbox Fusion server?")
	require.NoError(t, newClient(t, s, 1).Ping(t.Context()))
}

func TestConcurrency(t *testing.T) {
	t.Parallel()
	s := fusiontest.NewServer(t)
	c := newClient(t, s, 2)
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			err := c.Run(t.Context(), "", sandbox.Program{Code: "print(input())"},
				[]sandbox.Input{{Stdin: fmt.Append(nil, i)}, {Stdin: fmt.Append(nil, -i)}},
				sandbox.Limits{}, func(at int, r sandbox.Result) bool {
					if want := fmt.Sprintln(i * (1 - 2*at)); string(r.Stdout) != want {
						t.Errorf("input %d of %d: %q", at, i, r.Stdout)
					}
					return at == 0
				})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 12, s.Requests.Load())
	require.LessOrEqual(t, s.Most.Load(), int64(2))
}

// A program that waits for a processor is not asleep. One that gets none at all is retried.
func TestBusyServer(t *testing.T) {
	t.Parallel()
	s := fusiontest.NewServer(t)
	atOnce := 4 * runtime.NumCPU()
	c, err := New(Options{URL: s.URL, Concurrency: atOnce, Attempts: 100, Backoff: time.Millisecond})
	require.NoError(t, err)
	code := "import time\nwhile time.process_time() < 0.1: pass\nprint('done')"
	limits := sandbox.Limits{CPU: 2 * time.Second, Wall: 200 * time.Millisecond}
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			err := c.Run(t.Context(), "", sandbox.Program{Code: code}, []sandbox.Input{{}}, limits, func(_ int, r sandbox.Result) bool {
				if r.Status != sandbox.OK || string(r.Stdout) != "done\n" {
					t.Errorf("ended with %v after %v of processor time: %s", r.Status, r.CPU, r.Stderr)
				}
				return true
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestCancel(t *testing.T) {
	t.Parallel()
	s := fusiontest.NewServer(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("enough")
	time.AfterFunc(200*time.Millisecond, func() { cancel(stop) })
	start := time.Now()
	err := newClient(t, s, 1).Run(ctx, "", sandbox.Program{Code: "import time; time.sleep(60)"}, []sandbox.Input{{}}, sandbox.Limits{}, nil)
	require.ErrorIs(t, err, stop)
	require.Less(t, time.Since(start), 50*time.Second)
}

func TestOptions(t *testing.T) {
	t.Setenv("SANDBOX_URL", "")
	t.Setenv("SANDBOX_MAX_CONCURRENCY", "")
	for url, want := range map[string]string{
		"": "http://localhost:8080/run_code", "http://box:1": "http://box:1/run_code", "http://box/": "http://box/run_code",
		"https://box/a/run_code": "https://box/a/run_code",
	} {
		t.Setenv("SANDBOX_URL", url)
		c, err := New(Options{})
		require.NoError(t, err)
		require.Equal(t, want, c.URL())
		require.Equal(t, 4, cap(c.turns))
	}
	for _, url := range []string{"localhost:8080", "box", "ftp://box/", "http://"} {
		_, err := New(Options{URL: url})
		require.True(t, badinput.Is(err), url)
		require.ErrorContains(t, err, "SANDBOX_URL="+url+": expected a URL")
	}
	t.Setenv("SANDBOX_MAX_CONCURRENCY", "16")
	c, err := New(Options{})
	require.NoError(t, err)
	require.Equal(t, 16, cap(c.turns))
	for _, text := range []string{"0", "-1", "many"} {
		t.Setenv("SANDBOX_MAX_CONCURRENCY", text)
		_, err := New(Options{})
		require.ErrorContains(t, err, "SANDBOX_MAX_CONCURRENCY="+text+": expected a number above 0")
	}
}

func FuzzFrame(f *testing.F) {
	const nonce = "00112233445566778899aabbccddeeff"
	f.Add([]byte(nonce+"\n{\"exit\":0,\"sizes\":[2,1,3]}\n42Sabc"), int64(100))
	f.Add([]byte(nonce+"\n{\"sizes\":[-1,0,0]}\n"), int64(0))
	f.Add([]byte(nonce+"\n{\"cpu\":1e300,\"sizes\":[0,3,0]}\nS[}"), int64(1))
	f.Fuzz(func(t *testing.T, text []byte, output int64) {
		l := withDefaults(sandbox.Limits{Output: max(1, output)})
		for _, call := range []string{"", "f"} {
			resp := response{Files: map[string][]byte{"frame": text}}
			r, err := resp.result("frame", nonce, sandbox.Program{Call: call}, l)
			if err != nil || r.Status < sandbox.OK || r.Status > sandbox.CE || r.CPU < 0 {
				t.Fatalf("status %v, error %v after %v", r.Status, err, r.CPU)
			}
			if int64(len(r.Stdout)) > l.Output || len(r.Stdout)+len(r.Value)+len(r.Stderr) > len(text)+200 {
				t.Fatalf("%d bytes of output from %d", len(r.Stdout), len(text))
			}
			if r.Value != nil && !json.Valid(r.Value) {
				t.Fatalf("value %q", r.Value)
			}
		}
	})
}
