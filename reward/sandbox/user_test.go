//go:build linux && (amd64 || arm64)

package sandbox

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-7879b91d/grpo/internal/race"
)

// TestOrdinaryUser repeats the attacks and the honest programs as an ordinary user. The short form, which a test binary knows by
// -test.short, runs each attack on one of the rungs, by turns.
func TestOrdinaryUser(t *testing.T) {
	race.SkipCovered(t)
	t.Parallel()
	tests := "TestHostile|TestRungs|TestScratch|TestDiesFirst"
	if full > 0 {
		tests += "|TestHonest|TestKilled|TestSoak|TestStableVerdicts"
	}
	asOrdinaryUser(t, "^("+tests+")$", nil)
}

// TestHiddenProcesses repeats attacks on RungLandlock where /proc is mounted with hidepid, as on machines with many users: the limits that
// are enforced from outside must hold. The short form runs one attack of three.
func TestHiddenProcesses(t *testing.T) {
	race.SkipCovered(t)
	t.Parallel()
	// In a PID namespace of its own, because before Linux 5.8 all mounts of /proc in a namespace share the option hidepid.
	hidden := []string{"unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c",
		`mount -t proc -o hidepid=2 proc /proc && setpriv --reuid=65534 --regid=65534 --clear-groups "$0" "$@"`}
	if err := exec.Command(hidden[0], append(hidden[1:], "true")...).Run(); err != nil {
		t.Skip("this machine does not let /proc be mounted: ", err)
	}
	asOrdinaryUser(t, "^(TestHostile|TestRungs|TestSession)$/^landlock$", hidden)
}

// asOrdinaryUser runs the named tests of this package again as an unprivileged user. The command become, if any, changes the user first.
func asOrdinaryUser(t *testing.T, pattern string, become []string) {
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
	// An ordinary user cannot enter the directory of the test binary, so it is copied.
	binary := filepath.Join(dir, "sandbox.test")
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Skip(err)
	}
	syscall.ForkLock.RLock() // a binary that a child of another test has open for writing cannot be executed
	err = os.WriteFile(binary, self, 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-test.run", pattern, "-test.v"}
	if full == 0 {
		args = append(args, "-test.short")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	command := append(append(become, binary), args...)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/", "TMPDIR=/tmp", "GRPO_SANDBOX_FULL=" + os.Getenv("GRPO_SANDBOX_FULL")}
	if become == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	} else {
		cmd.Env = append(cmd.Env, "GRPO_SANDBOX_FULL=1") // every rung has every test
	}
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "--- FAIL") || strings.Contains(line, "--- SKIP") || strings.Contains(line, "_test.go") ||
			strings.Contains(line, "ms)") {
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
