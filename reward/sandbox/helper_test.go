package sandbox

import (
	"flag"
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestMain lets more tests run at once than there are processors, because most only wait for time limits.
func TestMain(m *testing.M) {
	os.Setenv("CANARY", "canary") // for programs to find
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	m.Run()
}

// testPython is the interpreter of the tests. It prefers one that every user can read.
func testPython(t testing.TB) string {
	t.Helper()
	for _, path := range []string{"/usr/bin/python3", "/usr/local/bin/python3", "python3"} {
		if _, err := exec.LookPath(path); err == nil {
			return path
		}
	}
	t.Skip("python3 is not installed")
	return ""
}

// openPool opens a pool on exactly this rung, or on the strongest where rung is 0, and skips where the
// machine does not allow it.
func openPool(t testing.TB, rung Rung, slots int) *Pool {
	t.Helper()
	p, err := Open(t.Context(), Options{Slots: slots, Python: testPython(t), Strongest: rung, Unsafe: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	if got := p.Isolation(); got.Rung == RungUnsafe && rung != RungUnsafe || rung != 0 && got.Rung != rung {
		why := ""
		for _, r := range got.Passed {
			why += r.Rung.String() + ": " + r.Why + "; "
		}
		t.Skipf("this machine does not allow it: %s", why)
	}
	return p
}

// runTest runs a program once.
func runTest(t testing.TB, p *Pool, prog Program, in Input, l Limits) Result {
	t.Helper()
	var got Result
	if err := p.Run(t.Context(), t.Name(), prog, []Input{in}, l, func(_ int, r Result) bool {
		got = r
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

// honest is a program that checks that a pool still works: it has fresh globals, an empty scratch directory
// and its own input.
const honest = `
import os, random
assert "left" not in globals()
left = random.random()
assert os.listdir() == []
print(int(input()) * 2)
`

func expectHonest(t testing.TB, p *Pool) {
	t.Helper()
	r := runTest(t, p, Program{Code: honest}, Input{Stdin: []byte("21\n")}, Limits{CPU: 2 * time.Second})
	if r.Status != OK || string(r.Stdout) != "42\n" {
		t.Errorf("the next honest program ended with %v, printed %q: %s", r.Status, r.Stdout, r.Stderr)
	}
}
