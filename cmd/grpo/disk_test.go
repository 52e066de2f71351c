package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A run that has no room ends in one line and goes on where there is some.
func TestFullDisks(t *testing.T) {
	if exec.Command("unshare", "-m", "mount", "-t", "tmpfs", "none", t.TempDir()).Run() != nil {
		t.Skip("a small file system takes the right to mount one")
	}
	o := newOracle(t)
	exe, err := os.Executable()
	require.NoError(t, err)
	words := o.words("run_dir=run", "pipeline=full")
	whole := t.TempDir()
	code, says := startCommand(t, whole, exec.Command(exe, words...)).end(t)
	require.Zero(t, code, says)
	want := remains(t, whole)
	for name, c := range map[string]struct {
		size string
		code int
		says string
	}{
		"no room for a checkpoint": {"size=4500k", exitFailed, "checkpoint run/checkpoints/step_000004: "},
		"no room for metrics":      {"size=12k", exitFailed, "metrics.jsonl"},
		"no room for completions":  {"size=20k", exitFailed, "rollouts.jsonl"},
		"no room at all":           {"size=4k", exitBadInput, "run_dir: "},
		"not to be written to":     {"ro", exitBadInput, "run_dir: "},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(folder, "run"), 0o755))
			script := `mount -t tmpfs -o ` + c.size + ` none run || exit 99
				"$@" 2>first; echo $? >code
				mount -o remount,rw,size=100m run && "$@" 2>second || exit 98
				mkdir kept && cp -a run kept`
			line := slices.Concat([]string{"-m", "sh", "-c", script, "sh", exe}, words)
			code, says := startCommand(t, folder, exec.Command("unshare", line...)).end(t)
			second, _ := os.ReadFile(filepath.Join(folder, "second"))
			require.Zero(t, code, "%s%s", says, second)
			text, err := os.ReadFile(filepath.Join(folder, "first"))
			require.NoError(t, err)
			lines := slices.DeleteFunc(strings.SplitAfter(string(text), "\n"), func(line string) bool {
				return line == "" || strings.HasPrefix(line, "  !")
			})
			require.Len(t, lines, 1, string(text))
			require.Contains(t, lines[0], c.says)
			if c.code == exitFailed {
				require.Contains(t, lines[0], "no space left on device; what was saved before stands: "+
					"mend that, then type run_dir=run to go on")
			}
			text, err = os.ReadFile(filepath.Join(folder, "code"))
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintln(c.code), string(text))
			requireSameRun(t, want, remains(t, filepath.Join(folder, "kept")))
		})
	}
}

// A log that cannot be written is told of at the end, and costs nothing.
func TestTheLogHasNoRoom(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	o := newOracle(t)
	want, _ := o.finish(t, t.TempDir())
	folder := t.TempDir()
	run := filepath.Join(folder, "run")
	require.NoError(t, os.Mkdir(run, 0o755))
	require.NoError(t, os.Symlink("/dev/full", filepath.Join(run, "logs.log")))
	out, errs, code := shell(t, "", o.words("run_dir="+run)...)
	require.Equal(t, exitFailed, code)
	require.Empty(t, out)
	require.Contains(t, errs, "grpo: write "+run+"/logs.log: no space left on device")
	requireSameEnd(t, want, remains(t, folder))
}
