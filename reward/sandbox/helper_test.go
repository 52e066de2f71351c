package sandbox

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// testPython is the interpreter of the tests: one that every user can reach, where there is one.
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

// honest is a program that shows that a pool still works as it should: fresh globals, an empty
// scratch directory, its own input, and nothing else.
const honest = `
import os, random
assert "left" not in globals()
left = random.random()
try:
    assert os.listdir("/tmp") == []
except PermissionError:
    pass
print(int(input()) * 2)
`

func expectHonest(t testing.TB, p *Pool) {
	t.Helper()
	r := runTest(t, p, Program{Code: honest}, Input{Stdin: []byte("21\n")}, Limits{CPU: 2 * time.Second})
	if r.Status != OK || string(r.Stdout) != "42\n" {
		t.Errorf("the next honest program ended with %v, printed %q: %s", r.Status, r.Stdout, r.Stderr)
	}
}

// asOrdinaryUser runs the named tests of this package once more as a user without powers.
func asOrdinaryUser(t *testing.T, pattern string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("this is an ordinary user already")
	}
	testPython(t)
	dir, err := os.MkdirTemp("", "sandbox-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	// The binary of the test lies where only we may go.
	binary := filepath.Join(dir, "sandbox.test")
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Skip(err)
	}
	if err := os.WriteFile(binary, self, 0o755); err != nil {
		t.Fatal(err)
	}
	args := []string{"-test.run", pattern, "-test.v"}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/", "TMPDIR=/tmp", "CANARY=canary"}
	if err := becomeNobody(cmd); err != nil {
		t.Skip(err)
	}
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "--- FAIL") || strings.Contains(line, "--- SKIP") || strings.Contains(line, "_test.go") || strings.Contains(line, "ms)") {
			t.Log(strings.TrimRight(line, "\n"))
		}
	}
	if err != nil {
		t.Errorf("as an ordinary user: %v", err)
	}
	if !strings.Contains(string(out), "--- PASS") {
		t.Errorf("as an ordinary user nothing was tested:\n%s", out)
	}
}
