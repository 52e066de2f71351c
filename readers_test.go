package grpo

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/readers"
)

// Writing the files of other readers (TensorBoard and the like) does not change a run, interrupted or not; and their content matches the
// run's directory.
func TestOtherReadersChangeNoResult(t *testing.T) {
	plain := setup{dir: t.TempDir(), words: []string{"max_steps=3", "eval_every=2"}}
	tr, _ := plain.open(t)
	require.NoError(t, tr.Run(t.Context()))

	store := filepath.Join(t.TempDir(), "mlruns")
	read := plain
	read.dir, read.words = t.TempDir(), append(read.words, "tensorboard=true", "mlflow="+store)
	tr, l, err := read.tryOpen(t)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	l.onStep = func(m Metrics) {
		if m.Step == 2 {
			cancel()
		}
	}
	require.ErrorIs(t, tr.Run(ctx), context.Canceled)
	require.NoError(t, tr.Close())
	tr, l = read.open(t)
	require.NoError(t, tr.Run(t.Context()))
	require.Empty(t, l.warnings)

	text := func(path ...string) string {
		text, err := os.ReadFile(filepath.Join(path...))
		require.NoError(t, err)
		return string(text)
	}
	for _, name := range []string{metricsFile, "checkpoints/step_000003/adapter/adapter_model.safetensors"} {
		require.Equal(t, text(plain.dir, name), text(read.dir, name), name)
	}
	written, err := filepath.Glob(filepath.Join(read.dir, "tensorboard", "*"))
	require.NoError(t, err)
	require.Len(t, written, 1)
	fresh := t.TempDir()
	_, err = readers.Formats[0].Write(read.dir, fresh)
	require.NoError(t, err)
	require.Equal(t, text(fresh, filepath.Base(written[0])), text(written[0]))
	ended, err := filepath.Glob(filepath.Join(store, "*", "*", "metrics", "steps", "mean_reward"))
	require.NoError(t, err)
	require.Len(t, ended, 1)
	require.Regexp(t, `^\d+ \S+ 1\n\d+ \S+ 2\n\d+ \S+ 3\n$`, text(ended[0]))
}
