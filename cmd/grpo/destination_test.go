package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// resultFlags are the flags for the path of a result, each with the command lines of the verbs that have it.
var resultFlags = map[string]struct {
	line   string
	folder bool
}{
	"grpo eval --out":               {"eval --problems 1 --samples 0 --out", false},
	"grpo eval --run --out":         {"eval --run RUN --out", false},
	"grpo data convert --out":       {"data convert TASKS --out", false},
	"grpo export --out":             {"export csv RUN --out", false},
	"grpo export parquet --out":     {"export parquet RUN --out", true},
	"grpo export tensorboard --out": {"export tensorboard RUN --out", true},
	"grpo replay --out":             {"replay --model tiny --rank 1 --datums DATUMS --out", true},
	"grpo replay --run --out":       {"replay --run RUN --step 2 --out", true},
	"grpo replay --dump-grads":      {"replay --model tiny --rank 1 --datums DATUMS --out OUT --dump-grads", false},
	"grpo quantize --out":           {"quantize --model tiny --out", true},
	"grpo manual --out":             {"manual --out", true},
	"grpo export-model --out":       {"export-model --model tiny --out", true},
	"grpo package --out":            {"package RUN --out", false},
	"grpo merge --out":              {"merge --model tiny --adapter RUN/checkpoints/step_000002/adapter --out", true},
}

func TestWritersAreKnown(t *testing.T) {
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		for _, flag := range []string{"out", "dump-grads"} {
			if cmd.Flags().Lookup(flag) != nil {
				require.Contains(t, resultFlags, cmd.CommandPath()+" --"+flag)
			}
		}
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check(newRoot())
}

// resultFixture is a folder with a trained run, problems and datums.
func resultFixture(t *testing.T) (dir string, call func(writer, out string) (stdout, stderr string, code int)) {
	t.Helper()
	dir = t.TempDir()
	run := filepath.Join(dir, "run")
	write(t, filepath.Join(dir, "datums.jsonl"), `{"tokens":[1,2],"ob_len":1,"logprobs":[-1],"advantage":1}`)
	write(t, filepath.Join(dir, "tasks.jsonl"), `{"prompt":"Print x.","tests":[{"stdin":"2\n","stdout":"3\n"}]}`+"\n")
	adapter := filepath.Join(run, "checkpoints", "step_000002", "adapter")
	require.NoError(t, os.MkdirAll(adapter, 0o755))
	for _, file := range []string{"metrics.jsonl", "manifest.json", "checkpoints/step_000002/state.json",
		"checkpoints/step_000002/optimizer.safetensors", "checkpoints/step_000002/adapter/adapter_config.json"} {
		write(t, filepath.Join(run, file), `{"step":1}`+"\n")
	}
	words := strings.NewReplacer("RUN", run, "TASKS", filepath.Join(dir, "tasks.jsonl"), "DATUMS", filepath.Join(dir, "datums.jsonl"),
		"OUT", filepath.Join(dir, "out"))
	return dir, func(writer, out string) (stdout, stderr string, code int) {
		return shell(t, "", append(strings.Fields(words.Replace(resultFlags[writer].line)), out)...)
	}
}

// contents are the files of a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, path))
		files[path] = string(text)
		return err
	}))
	return files
}

// No verb writes into a run: not over its files, not beside them, not through a link, and not into a copy of a checkpoint.
func TestNothingIsWrittenIntoARun(t *testing.T) {
	dir, call := resultFixture(t)
	run := filepath.Join(dir, "run")
	require.NoError(t, os.Symlink(filepath.Join(run, "checkpoints"), filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink(filepath.Join(dir, "tasks.jsonl"), filepath.Join(run, "link.jsonl")))
	require.NoError(t, os.CopyFS(filepath.Join(dir, "best"), os.DirFS(filepath.Join(run, "checkpoints", "step_000002"))))
	before := contents(t, dir)
	for writer := range resultFlags {
		for out, holder := range map[string]string{
			"run": "run", "run/metrics.jsonl": "run", "run/manifest.json": "run", "run/new.csv": "run", "run/checkpoints/step_000002/adapter": "run",
			"run/a/b": "run", "link/x": "run", "run/link.jsonl": "run", "best/adapter": "best", "best/x": "best",
		} {
			stdout, errs, code := call(writer, filepath.Join(dir, out))
			requireBadInput(t, stdout, errs, code, filepath.Join(dir, out)+": "+filepath.Join(dir, holder)+" is a run", "such as --")
			require.Equal(t, before, contents(t, dir), "%s %s", writer, out)
		}
	}
	t.Chdir(run)
	stdout, errs, code := call("grpo eval --out", "answers.jsonl")
	requireBadInput(t, stdout, errs, code, "is a run", filepath.Join(dir, "answers.jsonl"))
}

// An exported table may have the name of a run's file; that does not make its folder a run.
func TestAFolderWithATableIsNoRun(t *testing.T) {
	dir, call := resultFixture(t)
	write(t, filepath.Join(dir, "metrics.jsonl"), "{}\n")
	write(t, filepath.Join(dir, "state.json"), "{}\n")
	_, errs, code := call("grpo data convert --out", filepath.Join(dir, "normal.jsonl"))
	require.Zero(t, code, errs)
}

// The current directory is not replaced: the shell would stay in the old one.
func TestTheFolderThatOneIsInIsNotReplaced(t *testing.T) {
	_, call := resultFixture(t)
	t.Chdir(t.TempDir())
	out, errs, code := call("grpo merge --out", ".")
	requireBadInput(t, out, errs, code, "--out .: this is the current folder", "such as --out model")
}

// A dangling link is not replaced: the result would be written elsewhere.
func TestALinkToNothingIsNotReplaced(t *testing.T) {
	dir, call := resultFixture(t)
	link := filepath.Join(dir, "nowhere")
	require.NoError(t, os.Symlink(filepath.Join(dir, "not", "there"), link))
	for writer := range resultFlags {
		stdout, errs, code := call(writer, link)
		requireBadInput(t, stdout, errs, code, "it is a link to "+filepath.Join(dir, "not", "there")+", which does not exist")
	}
}

// An unusable destination is reported before the work begins, and the check leaves no files.
func TestBadDestinationsAreToldAtOnce(t *testing.T) {
	dir, call := resultFixture(t)
	file := write(t, filepath.Join(dir, "file"), "mine")
	locked := "/proc" // where not even root can create a file
	if os.Geteuid() != 0 {
		locked = filepath.Join(dir, "locked")
		require.NoError(t, os.Mkdir(locked, 0o555))
	}
	before := contents(t, dir)
	for writer, is := range resultFlags {
		wrong := map[string]string{
			file + "/x": "file is a file", filepath.Join(locked, "x.jsonl"): "nothing can be written in " + locked,
		}
		if is.folder {
			wrong[file] = "found a file, expected a directory"
			wrong[filepath.Join(locked, "a", "b")] = "nothing can be written in " + locked
		} else {
			wrong[dir] = "found a directory, expected a file; type --"
			wrong[filepath.Join(dir, "no", "x.jsonl")] = "there is no folder " + filepath.Join(dir, "no") + "; make it first"
			wrong["/dev/null"] = "not a regular file"
		}
		for out, says := range wrong {
			stdout, errs, code := call(writer, out)
			requireBadInput(t, stdout, errs, code, "--", out+": ", says)
		}
		require.Equal(t, before, contents(t, dir), writer)
	}
}

// A verb does not replace a file that it reads, whatever path names it.
func TestWhatIsReadIsNotReplaced(t *testing.T) {
	dir, call := resultFixture(t)
	tasks, datums := filepath.Join(dir, "tasks.jsonl"), filepath.Join(dir, "datums.jsonl")
	link, hard := filepath.Join(dir, "link.jsonl"), filepath.Join(dir, "hard.jsonl")
	require.NoError(t, os.Symlink(tasks, link))
	require.NoError(t, os.Link(tasks, hard))
	for _, out := range []string{tasks, link, hard, filepath.Join(dir, "run", "..", "tasks.jsonl")} {
		stdout, errs, code := call("grpo data convert --out", out)
		requireBadInput(t, stdout, errs, code, "this is the input")
	}
	stdout, errs, code := shell(t, "", "data", "convert", dir, "--out", tasks)
	requireBadInput(t, stdout, errs, code, "a file of the input "+dir)
	stdout, errs, code = shell(t, "", "eval", "--data", tasks, "--out", tasks)
	requireBadInput(t, stdout, errs, code, "this is the input")
	stdout, errs, code = call("grpo replay --dump-grads", datums)
	requireBadInput(t, stdout, errs, code, "this is the input")
	adapter := t.TempDir()
	require.NoError(t, os.CopyFS(adapter, os.DirFS(golden("qwen3-tied", "adapter"))))
	before := contents(t, adapter)
	stdout, errs, code = shell(t, "", "replay", "--model", golden("qwen3-tied"), "--adapter", adapter, "--datums", datums, "--out", adapter)
	requireBadInput(t, stdout, errs, code, "this is the input")
	require.Equal(t, before, contents(t, adapter))
	text, err := os.ReadFile(tasks)
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(text, []byte(`{"prompt":"Print x."`)))
}
