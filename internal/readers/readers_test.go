package readers

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/rows"
)

// growingRun is a run that a test extends.
type growingRun struct {
	t   *testing.T
	dir string
}

func (l growingRun) add(name, text string) {
	l.t.Helper()
	f, err := os.OpenFile(filepath.Join(l.dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	require.NoError(l.t, err)
	_, err = f.WriteString(text)
	require.NoError(l.t, err)
	require.NoError(l.t, f.Close())
}

func (l growingRun) step(n int, reward float64) {
	l.add("metrics.jsonl", fmt.Sprintf(`{"step":%d,"mean_reward":%g,"verdicts":{"AC":%d}}`+"\n", n, reward, n))
	l.add("train_log.jsonl", fmt.Sprintf(`{"step":%d,"total_s":%g}`+"\n", n, 1.5+reward))
}

func (l growingRun) evaluation(n int) {
	l.add("metrics.jsonl", fmt.Sprintf(`{"kind":"evaluation","step":%d,"pass@1":0.5}`+"\n", n))
}

// back truncates the logs, as resuming from a checkpoint does.
func (l growingRun) back(lengths [2]int64) {
	require.NoError(l.t, os.Truncate(filepath.Join(l.dir, "metrics.jsonl"), lengths[0]))
	require.NoError(l.t, os.Truncate(filepath.Join(l.dir, "train_log.jsonl"), lengths[1]))
}

func (l growingRun) lengths() (n [2]int64) {
	for i, name := range []string{"metrics.jsonl", "train_log.jsonl"} {
		info, err := os.Stat(filepath.Join(l.dir, name))
		require.NoError(l.t, err)
		n[i] = info.Size()
	}
	return n
}

// starts writes the manifest of a run with these starts, each after a number of steps.
func (l growingRun) starts(after ...int) {
	list := make([]string, len(after))
	for i, n := range after {
		list[i] = fmt.Sprintf(`{"after":%d,"time":"2026-01-02T0%d:00:00Z","settings":{"lora_rank":%d}}`, n, 3+i, 4+i)
	}
	text := `{"created":"2026-01-02T03:00:00Z","starts":[` + strings.Join(list, ",") + "]}"
	require.NoError(l.t, os.WriteFile(filepath.Join(l.dir, "manifest.json"), []byte(text), 0o644))
}

// files are the contents of all files below a folder.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		out[name] = strings.ReplaceAll(string(text), dir, "")
		return err
	}))
	return out
}

// begin is a run that has begun, and its page, which writes every format.
func begin(t *testing.T, store string) (growingRun, *configs.Config) {
	t.Helper()
	t.Setenv("WANDB_PROJECT", "p")
	for _, name := range []string{"WANDB_DIR", "WANDB_MODE", "WANDB_NAME", "MLFLOW_EXPERIMENT_NAME"} {
		t.Setenv(name, "")
	}
	l := growingRun{t, filepath.Join(t.TempDir(), "run")}
	require.NoError(t, os.MkdirAll(l.dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(l.dir, "config.json"), []byte(`{"model":"tiny","max_steps":5,"lora_rank":1}`), 0o644))
	l.starts(0)
	cfg := configs.Defaults()
	cfg.TensorBoard, cfg.MLflow = true, store
	return l, &cfg
}

// same compares what was written during a run with what is written from its directory now.
func same(t *testing.T, l growingRun, store string) {
	t.Helper()
	for name, dir := range map[string]string{"tensorboard": filepath.Join(l.dir, "tensorboard"), "wandb": filepath.Join(l.dir, "wandb"),
		"mlflow": store} {
		fresh := filepath.Join(t.TempDir(), "fresh")
		_, err := form(name).Write(l.dir, fresh)
		require.NoError(t, err)
		want := files(t, fresh)
		require.NotEmpty(t, want)
		require.Equal(t, want, files(t, dir), name)
	}
}

// A run that is killed, resumed from a checkpoint, goes back by itself, and ends.
func TestWrittenMeanwhileIsWrittenAfterwards(t *testing.T) {
	store := filepath.Join(t.TempDir(), "mlruns")
	l, cfg := begin(t, store)
	open := func() *Page {
		p, err := Open(cfg, l.dir, "")
		require.NoError(t, err)
		require.NoError(t, p.Update())
		return p
	}
	p := open()
	l.evaluation(0)
	require.NoError(t, p.Update())
	l.step(1, 0.25)
	require.NoError(t, p.UpdateIfDue())
	saved := l.lengths()
	l.step(2, 0.5)
	require.NoError(t, p.UpdateIfDue())
	same(t, l, store)

	// It is killed while it writes, and resumed after step 1. The second step then has another result.
	for _, pattern := range []string{"tensorboard/*", "wandb/*/*"} {
		found, err := filepath.Glob(filepath.Join(l.dir, pattern))
		require.NoError(t, err)
		require.Len(t, found, 1)
		rel, err := filepath.Rel(l.dir, found[0])
		require.NoError(t, err)
		l.add(rel, "half of a rec")
	}
	l.back(saved)
	l.starts(0, 1)
	p = open()
	l.step(2, 0.75)
	require.NoError(t, p.UpdateIfDue())
	same(t, l, store)
	l.step(3, 1)
	l.evaluation(3)
	require.NoError(t, p.UpdateIfDue())

	// It goes back while it is open.
	l.back(saved)
	require.NoError(t, p.Update())
	for n := 2; n <= 5; n++ {
		l.step(n, 0.125)
		require.NoError(t, p.UpdateIfDue())
	}
	l.evaluation(5)
	require.NoError(t, p.Finish(nil))
	same(t, l, store)
	require.Contains(t, fmt.Sprint(files(t, store)), "status: 3")

	// It is started again for another step: the mark that it is finished is removed, until it is finished again.
	l.starts(0, 1, 5)
	p = open()
	l.step(6, 1)
	require.NoError(t, p.UpdateIfDue())
	require.Contains(t, fmt.Sprint(files(t, store)), "status: 1")
	require.NoError(t, p.Finish(nil))
	same(t, l, store)
}

// A run that was killed before its first checkpoint starts over in its directory: nothing of the first attempt is left. A run of another
// directory stays.
func TestARunThatBeginsAnewIsThereOnce(t *testing.T) {
	store := filepath.Join(t.TempDir(), "mlruns")
	l, cfg := begin(t, store)
	other := growingRun{t, filepath.Join(t.TempDir(), "other")}
	require.NoError(t, os.MkdirAll(other.dir, 0o755))
	other.starts(0)
	other.step(1, 0.5)
	_, err := form("mlflow").Write(other.dir, store)
	require.NoError(t, err)
	runs := func() int {
		found, err := filepath.Glob(filepath.Join(store, "*", "*", "meta.yaml"))
		require.NoError(t, err)
		return len(found)
	}
	p, err := Open(cfg, l.dir, "")
	require.NoError(t, err)
	l.step(1, 0.5)
	require.NoError(t, p.Update())
	require.Equal(t, 2, runs())

	p, err = Open(cfg, l.dir, "")
	require.NoError(t, err)
	l.back([2]int64{})
	text := `{"created":"2026-01-02T05:00:00Z","starts":[{"after":0,"time":"2026-01-02T05:00:00Z"}]}`
	require.NoError(t, os.WriteFile(filepath.Join(l.dir, "manifest.json"), []byte(text), 0o644))
	l.step(1, 0.25)
	require.NoError(t, p.Update())
	require.NoError(t, p.Finish(nil))
	require.Equal(t, 2, runs())
	for _, name := range []string{"tensorboard", "wandb"} {
		fresh := filepath.Join(t.TempDir(), "fresh")
		_, err := form(name).Write(l.dir, fresh)
		require.NoError(t, err)
		require.Equal(t, files(t, fresh), files(t, filepath.Join(l.dir, name)))
	}
}

func TestARunWithoutStepsIsRefused(t *testing.T) {
	l, _ := begin(t, "")
	for _, f := range Formats {
		out := filepath.Join(t.TempDir(), "out")
		_, err := f.Write(l.dir, out)
		require.ErrorContains(t, err, "has no steps on record yet")
		require.True(t, badinput.Is(err))
		require.NoDirExists(t, out)
		l.step(1, 0.5)
		require.NoError(t, os.WriteFile(out, nil, 0o644))
		_, err = f.Write(l.dir, out)
		require.ErrorContains(t, err, out, "a file")
		l.back([2]int64{})
	}
}

func TestAFolderOfSomethingElseIsRefused(t *testing.T) {
	l, cfg := begin(t, "")
	cfg.MLflow = l.dir
	_, err := Open(cfg, l.dir, "")
	require.ErrorContains(t, err, "mlflow: ")
	require.True(t, badinput.Is(err))
}

// Runs may share a folder where readers distinguish them; where they would be shown as one, the second is refused, with another place.
func TestEventsOfAnotherRunAreRefused(t *testing.T) {
	out := t.TempDir()
	for i, name := range []string{"a", "b"} {
		l := growingRun{t, filepath.Join(t.TempDir(), name)}
		require.NoError(t, os.Mkdir(l.dir, 0o755))
		l.starts(make([]int, i+1)...)
		require.NoError(t, os.WriteFile(filepath.Join(l.dir, "config.json"), fmt.Appendf(nil, `{"seed":%d}`, i), 0o644))
		l.step(1, 0.5)
		for _, f := range Formats {
			dir := filepath.Join(out, f.Name)
			_, err := f.Write(l.dir, dir)
			if i == 1 && f.Name == "tensorboard" {
				require.ErrorContains(t, err, "it has events of another run, events.out.tfevents.")
				require.ErrorContains(t, err, "choose a folder for each, such as "+filepath.Join(dir, "b"))
				require.True(t, badinput.Is(err))
				_, err = f.Write(l.dir, filepath.Join(dir, "b"))
			}
			require.NoError(t, err)
			_, err = f.Write(l.dir, dir) // again
			require.Equal(t, i == 1 && f.Name == "tensorboard", err != nil, err)
		}
	}
	found, err := filepath.Glob(filepath.Join(out, "tensorboard", "*"))
	require.NoError(t, err)
	require.Len(t, found, 2)
}

// The client is called with the run, and its last output is reported.
func TestAClientSendsTheRun(t *testing.T) {
	l, cfg := begin(t, "") // which also writes event files
	l.step(1, 0.5)
	t.Setenv("WANDB_MODE", "online")
	said := func() (lines []string) {
		HandOver(t.Context(), cfg, l.dir, true, func(line string) { lines = append(lines, line) })
		return lines
	}
	bin := t.TempDir()
	shell := os.Getenv("PATH")
	t.Setenv("PATH", bin)
	require.Len(t, said(), 1)
	require.Contains(t, said()[0], "which is not on PATH; pip install wandb, then type wandb sync "+l.dir+
		"/wandb/offline-run-20260102_030000-")
	client := func(text string) {
		require.NoError(t, os.WriteFile(filepath.Join(bin, "wandb"), []byte("#!/bin/sh\n"+text), 0o755))
	}
	client(`echo "$@" > ` + bin + "/args\n")
	require.Empty(t, said())
	args, err := os.ReadFile(filepath.Join(bin, "args"))
	require.NoError(t, err)
	require.Regexp(t, `^sync /.*/wandb/offline-run-20260102_030000-[0-9a-f]{8}\n$`, string(args))
	client("PATH=" + shell + "\nsleep 100 &\n") // the process that it leaves holds its output open, and nobody waits for that
	begun := time.Now()
	require.Empty(t, said())
	require.Less(t, time.Since(begun), 50*time.Second)
	client("echo no key >&2\nexit 3\n")
	require.Len(t, said(), 1)
	require.Contains(t, said()[0], "the run was not sent: wandb sync: exit status 3: no key; fix that, then type wandb sync ")

	t.Setenv("WANDB_MODE", "")
	var lines []string
	HandOver(t.Context(), cfg, l.dir, false, func(line string) { lines = append(lines, line) })
	require.Len(t, lines, 2)
	require.Equal(t, "tensorboard: type tensorboard --logdir "+l.dir+"/tensorboard", lines[0])
	require.Contains(t, lines[1], "wandb: type wandb sync "+l.dir+"/wandb/offline-run-20260102_030000-")
}

// The command that reads a run is quoted for a shell.
func TestCommandsAreTyped(t *testing.T) {
	dir := t.TempDir()
	growingRun{t, dir}.step(1, 0.5)
	f, err := rows.Open(dir)
	require.NoError(t, err)
	for _, form := range Formats {
		require.Contains(t, form.ReadCommand("my logs", f.Run), " 'my logs", form.Name)
		require.Contains(t, form.ReadCommand("logs", f.Run), " logs", form.Name)
	}
}
