package readers

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A failure to write is reported once, does not end the run, and the files are complete once writing works again.
func TestTroubleIsToldOnce(t *testing.T) {
	store := filepath.Join(t.TempDir(), "mlruns")
	l, cfg := begin(t, store)
	blocker := filepath.Join(l.dir, "tensorboard")
	require.NoError(t, os.WriteFile(blocker, nil, 0o644))
	p, err := Open(cfg, l.dir, "")
	require.NoError(t, err)
	require.ErrorContains(t, p.Update(), "tensorboard: ")
	l.step(1, 0.5)
	require.NoError(t, p.UpdateIfDue())
	require.NoError(t, os.Remove(blocker))
	l.step(2, 0.5)
	require.NoError(t, p.UpdateIfDue())
	require.NoError(t, p.Finish(nil))
	same(t, l, store)
	l.add("metrics.jsonl", "garbage\n")
	err = p.Finish(nil)
	for _, name := range []string{"tensorboard", "mlflow", "wandb"} {
		require.ErrorContains(t, err, name+": "+filepath.Join(l.dir, "metrics.jsonl")+":3: ")
	}
	require.NoError(t, p.Finish(nil), "an error that was reported is not returned at the end")
	require.NoError(t, os.WriteFile(filepath.Join(l.dir, "config.json"), []byte("garbage"), 0o644))
	HandOver(t.Context(), cfg, l.dir, false, func(line string) { t.Error(line) })
}

// What users add to a run in a store, such as a note, is kept when the run continues.
func TestANoteInAStoreStays(t *testing.T) {
	store := filepath.Join(t.TempDir(), "mlruns")
	l, cfg := begin(t, store)
	note := ""
	for n := 1; n <= 2; n++ {
		p, err := Open(cfg, l.dir, "")
		require.NoError(t, err)
		l.step(n, 0.5)
		require.NoError(t, p.Update())
		require.NoError(t, p.Finish(nil))
		if n == 1 {
			found, err := filepath.Glob(filepath.Join(store, "*", "*", "tags"))
			require.NoError(t, err)
			note = filepath.Join(found[0], "mlflow.note.content")
			require.NoError(t, os.WriteFile(note, nil, 0o644))
		}
	}
	require.FileExists(t, note)
}

func TestWhatIsNotAskedForIsNotWritten(t *testing.T) {
	for name, value := range map[string]string{"WANDB_MODE": "disabled", "WANDB_PROJECT": ""} {
		l, cfg := begin(t, "")
		cfg.TensorBoard = false
		t.Setenv(name, value)
		p, err := Open(cfg, l.dir, "")
		require.NoError(t, err)
		l.step(1, 0.5)
		require.NoError(t, p.Update())
		require.NoError(t, p.Finish(nil))
		require.NoDirExists(t, filepath.Join(l.dir, "wandb"))
		require.NoDirExists(t, filepath.Join(l.dir, "tensorboard"))
		HandOver(t.Context(), cfg, l.dir, false, func(line string) { t.Error(line) })
	}
}
