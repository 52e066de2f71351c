package procgroup

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMain runs the tests, or a program that runs a script apart until it is killed.
func TestMain(m *testing.M) {
	if script := os.Getenv("APART_TEST"); script != "" {
		cmd := exec.Command("sh", "-c", script)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		in, _ := cmd.StdinPipe()
		Set(cmd)
		fmt.Println(cmd.Start(), in != nil)
		time.Sleep(time.Hour)
	}
	os.Exit(m.Run())
}

// requireEnded waits for the end of the processes whose ids are in the files.
func requireEnded(t *testing.T, files ...string) {
	t.Helper()
	for _, file := range files {
		pid, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Eventually(t, func() bool { // a process that ended may be a zombie until its new parent reaps it
			state, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
			return err != nil || strings.Contains(string(state), ") Z ")
		}, time.Minute, 10*time.Millisecond, file)
	}
}

// processTree is a script that starts a child with a child, one that left its process group, and one whose parent has ended, and writes
// their ids.
func processTree(dir string) (script string, files []string) {
	for _, name := range []string{"self", "child", "grandchild", "away", "orphan"} {
		files = append(files, filepath.Join(dir, name))
	}
	return fmt.Sprintf(`echo $$ > %s
sh -c 'echo $$ > %s; sh -c "echo \$\$ > %s; exec sleep 300"' &
setsid sh -c 'echo $$ > %s; exec sleep 300' &
(sh -c 'echo $$ > %s; exec sleep 300' &)
while for f in %[6]s; do test -s $f || break; done; ! test -s $f; do sleep 0.01; done
echo all
`, files[0], files[1], files[2], files[3], files[4], strings.Join(files, " ")), files
}

// No process that a program has started outlives this process, however that ends.
func TestKilled(t *testing.T) {
	script, files := processTree(t.TempDir())
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), "APART_TEST="+script+"exec sleep 300\n")
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "all" {
	}
	require.Equal(t, "all", lines.Text())
	require.NoError(t, parent.Process.Signal(syscall.SIGKILL))
	_ = parent.Wait()
	requireEnded(t, files...)
}

// When a program ends, the processes that it started end, too; it gets signals, and its exit is passed on.
func TestEnds(t *testing.T) {
	script, files := processTree(t.TempDir())
	cmd := exec.Command("sh", "-c", script+"trap 'exit 7' TERM\necho ready\nwhile :; do sleep 0.01; done\n")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	Set(cmd)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "ready" {
	}
	require.NoError(t, cmd.Process.Signal(parentDied)) // as if by another thread of this process, which lives
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	rest, err := io.ReadAll(out)
	require.NoError(t, err)
	require.Empty(t, rest)
	require.Error(t, cmd.Wait())
	require.Equal(t, 7, cmd.ProcessState.ExitCode())
	requireEnded(t, files...)
}

// A program that cannot be started gives an error.
func TestNotStarted(t *testing.T) {
	cmd := exec.Command("/nowhere/at/all")
	Set(cmd)
	require.Error(t, cmd.Start())
	plain := filepath.Join(t.TempDir(), "plain")
	require.NoError(t, os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o644))
	cmd = exec.Command(plain)
	Set(cmd)
	require.ErrorContains(t, cmd.Start(), "permission denied")
	file := filepath.Join(t.TempDir(), "garbage")
	require.NoError(t, os.WriteFile(file, []byte{1, 2, 3}, 0o755))
	cmd = exec.Command(file)
	Set(cmd)
	said, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Equal(t, file+" cannot be started: exec format error\n", string(said))
}
