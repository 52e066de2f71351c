//go:build linux && (amd64 || arm64)

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// lowered is the environment variable that tells a process which resource limit to lower, and to what.
const lowered = "GRPO_LOWERED_LIMIT"

// If a hard limit is below what programs get, the error says which one to raise and does not suggest to give up isolation.
func TestLowLimitsAreNamed(t *testing.T) {
	if which, value, of := strings.Cut(os.Getenv(lowered), "="); of {
		resource, _ := strconv.Atoi(which)
		most, _ := strconv.ParseUint(value, 10, 64)
		require.NoError(t, unix.Setrlimit(resource, &unix.Rlimit{Cur: most, Max: most}))
		_, err := Open(t.Context(), Options{Slots: 1, Python: testPython(t)})
		require.True(t, badinput.Is(err))
		t.Fatal(err)
	}
	openPool(t, 0, 1)
	const most = ", but no process here may have more than "
	for text, limit := range map[string][2]int{
		"a program gets 256 open files" + most + "100: raise ulimit -Hn to 256 or more": {unix.RLIMIT_NOFILE, 100},
		"too many open files; raise the number of files that a process may open":        {unix.RLIMIT_NOFILE, 8},
		"64 pending signals" + most + "3: raise ulimit -Hi to 64":                       {unix.RLIMIT_SIGPENDING, 3},
		"KiB in a file" + most + "1024: raise ulimit -Hf to":                            {unix.RLIMIT_FSIZE, 1 << 20},
		"seconds of processor time" + most + "2: raise ulimit -Ht to":                   {unix.RLIMIT_CPU, 2},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), lowered+"="+strconv.Itoa(limit[0])+"="+strconv.Itoa(limit[1]))
		said, err := cmd.CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(said), text)
		require.NotContains(t, string(said), "unsafe")
	}
}

// The advice fits the reason for which nothing can be isolated.
func TestWhatIsMissingIsNamed(t *testing.T) {
	require.Contains(t, refuse([]Refusal{{RungFull, "make a cell: fork/exec: too many open files"}}).Error(), "ulimit -n")
	require.NotContains(t, refuse([]Refusal{{RungFull, "make a cell: fork/exec: too many open files"}}).Error(), "unsafe")
	for _, no := range []string{"start a cell: resource temporarily unavailable", "pthread_create failed: Resource temporarily unavailable"} {
		require.Contains(t, refuse([]Refusal{{RungFull, no}}).Error(), "ulimit -u")
		require.NotContains(t, refuse([]Refusal{{RungFull, no}}).Error(), "unsafe")
	}
	require.Contains(t, refuse([]Refusal{{RungFull, "no control group"}}).Error(), "sandbox=unsafe")
}

// The message about a cell that crashed while starting has the reason, not the last line of the crash.
func TestLastWords(t *testing.T) {
	const first, second = "runtime: failed to create new OS thread (errno=11)", "runtime: may need to increase max user processes (ulimit -u)"
	require.Equal(t, first+"; "+second,
		lastWords(first+"\n"+second+"\nfatal error: newosproc\n\nruntime stack:\ngs     0x0\n"))
	require.Equal(t, "KeyError: 'runtime: '", lastWords("Traceback\nKeyError: 'runtime: '\n"))
	const thread = "runtime/cgo: pthread_create failed: Resource temporarily unavailable"
	require.Equal(t, thread, lastWords(thread+"\nSIGABRT: abort\nPC=0x1 m=0 sigcode=18446744073709551610\n\ngs     0x0\n"))
	require.Empty(t, lastWords(""))
}

// An interpreter that exists but cannot be used is not reported as missing, and a cancelled context is returned as such.
func TestUselessInterpreters(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), mode))
		return path
	}
	for path, says := range map[string]string{
		script("plain", "", 0o644):        "plain\": cannot be run: permission denied; install Python",
		dir:                               "\": cannot be run: is a directory; install Python",
		filepath.Join(dir, "none"):        "none\": not found; install Python",
		script("silent", "exit 3", 0o755): "silent does not tell its version (exit status 3); install Python",
		script("talks", "echo Python 3.11", 0o755): "talks does not tell its version (it printed \"Python 3.11\\n\"); install Python",
	} {
		_, err := findInterpreter(t.Context(), path)
		require.ErrorContains(t, err, says)
		require.True(t, badinput.Is(err))
	}
	for version, ok := range map[string]bool{"2.7.18": false, "3.7.17": false, "3.8.0": true, "3.14.0": true, "4.0.0": true, "": false} {
		said := fmt.Sprintf(`echo '{"exe": "/bin/true", "version": "%s"}'`, version)
		_, err := findInterpreter(t.Context(), script("python"+version, said, 0o755))
		require.Equal(t, !ok, badinput.Is(err), version)
		if !ok {
			require.ErrorContains(t, err, "has the version \""+version+"\"; install Python 3.8 or later, or name one with python=PATH")
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	began := filepath.Join(dir, "began")
	hangs := script("hangs", "sleep 1000 & echo $! > "+began+".pid; mv "+began+".pid "+began+"; wait", 0o755)
	go func() {
		defer cancel()
		for _, err := os.Stat(began); errors.Is(err, os.ErrNotExist) && t.Context().Err() == nil; _, err = os.Stat(began) {
		}
	}()
	_, err := findInterpreter(ctx, hangs)
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, badinput.Is(err))
	child, err := os.ReadFile(began)
	require.NoError(t, err)
	require.Eventually(t, func() bool { // the process that the script started ends with it
		state, err := os.ReadFile("/proc/" + strings.TrimSpace(string(child)) + "/stat")
		return err != nil || strings.Contains(string(state), ") Z ")
	}, time.Minute, 10*time.Millisecond)
}
