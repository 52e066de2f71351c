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

	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/testvariants"
)

// ownMounts are flags of unshare to get a mount namespace: in a user namespace, which most machines allow to everybody, or as root.
func ownMounts(t *testing.T) (flags string) {
	t.Helper()
	var why []byte
	for _, flags := range []string{"-rm", "-m"} {
		out, err := exec.Command("unshare", flags, "mount", "-t", "tmpfs", "none", t.TempDir()).CombinedOutput()
		if err == nil {
			return flags
		}
		why = fmt.Appendf(why, "; unshare %s: %v %s", flags, err, out)
	}
	t.Skipf("this machine gives nobody a small file system%s", why)
	return ""
}

// A run on a full disk ends with one line, and can be resumed once there is room: because the file system has grown, or files were
// removed. By default only every second of these disks is tested.
func TestFullDisks(t *testing.T) {
	race.SkipCovered(t)
	mounts := ownMounts(t)
	o := newFakeSandbox(t)
	exe, err := os.Executable()
	require.NoError(t, err)
	words := o.words("run_dir=run", "pipeline=full")
	whole := t.TempDir()
	code, says := startCommand(t, whole, exec.Command(exe, words...)).end(t)
	require.Zero(t, code, says)
	want := runFiles(t, whole)
	const larger = "mount -o remount,rw,size=100m run"
	others := map[string]string{"rm run/.others": "head -c 20000k /dev/zero >run/.others || exit 97"}
	type disk struct {
		name, size string
		code       int
		says, mend string
	}
	for _, c := range race.FirstOnly(testvariants.EveryNth(3, []disk{
		{"no room for a checkpoint", "size=4500k", exitFailed, "checkpoint run/checkpoints/step_000004: ", larger},
		{"no room for metrics", "size=12k", exitFailed, "metrics.jsonl", larger},
		{"no room for completions", "size=28k", exitFailed, "rollouts.jsonl", larger},
		{"no room at all", "size=4k", exitBadInput, "no space left on device; make room there, or choose another one", larger},
		{"not to be written to", "ro", exitBadInput, "run_dir: ", larger},
		{"filled by somebody else", "size=24500k", exitFailed, "checkpoint run/checkpoints/step_000004: ", "rm run/.others"},
	}...)...) {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(folder, "run"), 0o755))
			script := `mount -t tmpfs -o ` + c.size + ` none run || exit 99
				` + others[c.mend] + `
				"$@" 2>first; echo $? >code
				` + c.mend + ` && "$@" 2>second || exit 98
				mkdir kept && cp -a run kept`
			line := slices.Concat([]string{mounts, "sh", "-c", script, "sh", exe}, words)
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
				goesOn := "the checkpoints saved before are intact: make room there, then type run_dir=run to resume"
				if !strings.Contains(c.says, "step_000004") { // the second step is not saved either
					goesOn = "nothing had been saved: make room there, then type run_dir=run to start again"
				}
				require.Contains(t, lines[0], "no space left on device; "+goesOn)
				require.NotRegexp(t, `\.tmp|\.partial`, lines[0])
			}
			text, err = os.ReadFile(filepath.Join(folder, "code"))
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintln(c.code), string(text))
			requireSameRun(t, want, runFiles(t, filepath.Join(folder, "kept")))
		})
	}
}

// If there is no room for a model, the line names the path that was typed, not the temporary folder, and says what to do. That folder is
// removed, and so is one that was created for the result.
func TestFullDisksOfResults(t *testing.T) {
	race.SkipCovered(t)
	mounts := ownMounts(t)
	problems := filepath.Join(t.TempDir(), "problems.jsonl")
	write(t, problems, manyProblems())
	trained := t.TempDir()
	newFakeSandbox(t).finish(t, trained)
	exe, err := os.Executable()
	require.NoError(t, err)
	datums, adapter := filepath.Join(t.TempDir(), "datums.jsonl"), filepath.Join(t.TempDir(), "adapter")
	write(t, datums, `{"tokens":[1,2],"ob_len":1,"logprobs":[-1],"advantage":1}`)
	_, errs, code := shell(t, "", "replay", "--model", "tiny", "--rank", "1", "--datums", datums, "--out", adapter)
	require.Zero(t, code, errs)
	for _, c := range race.FirstOnly(
		"quantize --model tiny",
		"merge --model tiny --adapter "+adapter,
		"merge --model tiny --quantize nf4 --adapter "+adapter,
		"export-model --model tiny --adapter "+adapter,
		"export-model --model tiny --format gguf --type f32",
		"replay --model tiny --rank 16 --datums "+datums,
		"export parquet "+filepath.Join(trained, "run"),
		"data convert "+problems,
	) {
		t.Run(c, func(t *testing.T) {
			size := "500k"
			if strings.HasPrefix(c, "export ") || strings.HasPrefix(c, "data ") {
				size = "4k"
			}
			folder := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(folder, "small"), 0o755))
			line := slices.Concat([]string{mounts, "sh", "-c", `mount -t tmpfs -o size=` + size + ` none small || exit 99
				"$@"; echo $? >code; ls -A small >left`, "sh", exe}, strings.Fields(c), []string{"--out", "small/result"})
			code, says := startCommand(t, folder, exec.Command("unshare", line...)).end(t)
			require.Zero(t, code, says)
			require.Equal(t, "grpo: --out small/result: no space left on device; make room there, or choose another place\n", says)
			for file, want := range map[string]string{"code": fmt.Sprintln(exitFailed), "left": ""} {
				text, err := os.ReadFile(filepath.Join(folder, file))
				require.NoError(t, err)
				require.Equal(t, want, string(text))
			}
		})
	}
}

func manyProblems() string {
	var text strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&text, `{"id":"%d","prompt":"Print %[1]d.","tests":[{"stdin":"","stdout":"%[1]d"}]}`+"\n", i)
	}
	return text.String()
}

// If the cache has no room for a data set, the error names the cache, where nothing is left.
func TestTheCacheHasNoRoom(t *testing.T) {
	mounts := ownMounts(t)
	exe, err := os.Executable()
	require.NoError(t, err)
	folder := t.TempDir()
	write(t, filepath.Join(folder, "problems.jsonl"), manyProblems())
	require.NoError(t, os.Mkdir(filepath.Join(folder, "small"), 0o755))
	const script = `mount -t tmpfs -o size=64k none small || exit 99
		XDG_CACHE_HOME=$PWD/small "$@"; echo $? >code; ls -A small/grpo/datasets >left`
	line := []string{mounts, "sh", "-c", script, "sh", exe, "data", "fingerprint", "problems.jsonl"}
	code, says := startCommand(t, folder, exec.Command("unshare", line...)).end(t)
	require.Zero(t, code, says)
	require.Equal(t, "grpo: no room in "+folder+"/small/grpo/datasets for the normalised data set; make room there, "+
		"or set XDG_CACHE_HOME to another folder\n", says)
	for file, want := range map[string]string{"code": fmt.Sprintln(exitFailed), "left": ""} {
		text, err := os.ReadFile(filepath.Join(folder, file))
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}
}

// If the log cannot be written, that is reported at the end, and has no other consequence.
func TestTheLogHasNoRoom(t *testing.T) {
	race.SkipCovered(t)
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	o := newFakeSandbox(t)
	want, _ := o.finish(t, t.TempDir())
	folder := t.TempDir()
	run := filepath.Join(folder, "run")
	require.NoError(t, os.Mkdir(run, 0o755))
	require.NoError(t, os.Symlink("/dev/full", filepath.Join(run, "logs.log")))
	out, errs, code := shell(t, "", o.words("run_dir="+run)...)
	require.Equal(t, exitFailed, code)
	require.Empty(t, out)
	require.Contains(t, errs, "grpo: write "+run+"/logs.log: no space left on device")
	requireSameEnd(t, want, runFiles(t, folder))
}
