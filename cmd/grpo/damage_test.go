package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/race"
)

// damage is a kind of damage to a file of a checkpoint.
type damage struct{ file, how string }

// damages are all kinds of damage to all files of a checkpoint.
func damages() (all []damage) {
	files := []string{"ahead.json", "adapter/adapter_config.json", "adapter/adapter_model.safetensors", "optimizer.safetensors", "state.json"}
	for _, how := range []string{"short", "flipped", "gone"} {
		for _, file := range files {
			all = append(all, damage{file, how})
		}
	}
	return append(all, damage{"state.json", "emptied"})
}

// do damages the file in a checkpoint.
func (d damage) do(t *testing.T, checkpoint string) {
	path := filepath.Join(checkpoint, d.file)
	if d.how == "gone" {
		require.NoError(t, os.Remove(path))
		return
	}
	rewrite(t, path, func(text []byte) []byte {
		switch d.how {
		case "emptied":
			return nil
		case "short":
			return text[:len(text)-1]
		}
		at := len(text) / 2
		if d.file == "state.json" {
			at = bytes.Index(text, []byte(`"step": `)) + len(`"step": `) // the text stays valid JSON
		}
		text[at] ^= 1
		return text
	})
}

// Each file of a checkpoint can be truncated, have a flipped bit, or be missing: that is reported, and the run resumes from the last
// intact checkpoint.
func TestDamagedCheckpoints(t *testing.T) {
	race.SkipCovered(t)
	o := newFakeSandbox(t)
	folder := t.TempDir()
	all := damages()
	with := []string{"pipeline=full", "max_steps=3", "save_every=1"}
	want, _ := o.finish(t, folder, with...)
	checkpoint := func(step int) string {
		return filepath.Join(folder, "run", "checkpoints", fmt.Sprintf("step_%06d", step))
	}
	require.NoError(t, os.RemoveAll(checkpoint(3)))
	for i := range all[1:] {
		require.NoError(t, os.CopyFS(checkpoint(i+3), os.DirFS(checkpoint(2))))
	}
	for i, d := range all {
		d.do(t, checkpoint(i+2))
	}
	got, says := o.finish(t, folder, with...)
	for i, d := range all {
		at := strings.Index(says, checkpoint(i+2))
		require.GreaterOrEqual(t, at, 0, "%v\n%s", d, says)
		line, _, _ := strings.Cut(says[at:], "\n")
		require.Contains(t, line, d.file)
		require.Contains(t, line, "using an older checkpoint")
	}
	require.Equal(t, len(all), strings.Count(says, "using an older checkpoint"), says)
	aside, err := filepath.Glob(filepath.Join(folder, "run", "checkpoints", "set_aside", "*", "step_*"))
	require.NoError(t, err)
	require.Len(t, aside, len(all))
	requireSameEnd(t, want, got)

	// No intact checkpoint is left.
	require.NoError(t, os.RemoveAll(filepath.Join(folder, "run", "checkpoints", "set_aside")))
	before := runFiles(t, folder)
	for step := 1; step <= 3; step++ {
		require.NoError(t, os.Truncate(filepath.Join(checkpoint(step), "optimizer.safetensors"), 10))
	}
	out, errs, code := shell(t, "", o.words(append(with, "run_dir="+filepath.Join(folder, "run"))...)...)
	requireBadInput(t, out, errs, code, checkpoint(1), checkpoint(2), checkpoint(3),
		"no checkpoint to resume from; choose another run_dir")
	require.Equal(t, before["metrics.jsonl"], runFiles(t, folder)["metrics.jsonl"])
}

// Partial files of processes that were killed while writing are removed when the run is resumed, and nothing else.
func TestLeftoversAreSwept(t *testing.T) {
	race.SkipCovered(t)
	o := newFakeSandbox(t)
	folder := filepath.Join(t.TempDir(), "[a-b]*")
	run := filepath.Join(folder, "run")
	own := write(t, filepath.Join(t.TempDir(), "notes"), "mine")
	for _, words := range [][]string{{"max_steps=2"}, {"max_steps=4"}} { // restarted, and resumed
		require.NoError(t, os.MkdirAll(filepath.Join(run, "checkpoints", "step_000009.partial", "adapter"), 0o755))
		require.NoError(t, os.MkdirAll(filepath.Join(run, "checkpoints", "step_000001.old.partial"), 0o755))
		write(t, filepath.Join(run, ".config.json.1234.tmp"), "{")
		require.NoError(t, os.CopyFS(filepath.Join(run, "checkpoints", "step_000002.mine"), os.DirFS(filepath.Dir(own))))
		got, _ := o.finish(t, folder, words...)
		require.Contains(t, got, "checkpoints/step_000002.mine/notes", "not the name of a checkpoint")
		for name := range got {
			require.NotContains(t, name, "partial")
			require.NotContains(t, name, ".tmp")
		}
		require.NoError(t, os.RemoveAll(filepath.Join(run, "checkpoints", "step_000002.mine")))
	}
	want, _ := o.finish(t, t.TempDir())
	requireSameEnd(t, want, runFiles(t, folder))

	// Old checkpoints are removed at the very end of a run.
	got, _ := o.finish(t, folder, "keep_last=1", "keep_best=0")
	names := slices.Collect(maps.Keys(got))
	require.NotContains(t, names, "checkpoints/step_000002")
	require.Contains(t, names, "checkpoints/step_000004")
}
