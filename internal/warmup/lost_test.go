package warmup

import (
	"maps"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/race"
)

// A policy that a step made non-finite is neither saved nor evaluated: the last checkpoint stays, and the error says what to type.
func TestAPolicyThatIsLostIsNotSaved(t *testing.T) {
	race.SkipSerial(t)
	for _, c := range []struct {
		method, rate string
		words        []string
	}{
		{configs.SFT, "1e+30", []string{"held_out=0", "save_every=1"}},
		{configs.SFT, "1e+30", []string{"held_out=0", "save_every=-1"}}, // found by the next step
		{configs.SFT, "1e+30", []string{"held_out=0.3", "eval_every=1", "save_every=-1"}},
		{configs.DPO, "1e+30", []string{"held_out=0", "save_every=1"}},
		{configs.DPO, "1e+30", []string{"held_out=0", "save_every=-1"}}, // found by the next step
	} {
		t.Run(c.method, func(t *testing.T) {
			dir := t.TempDir()
			words := append([]string{"data=" + rowsFile(t, c.method, 4), "run_dir=" + dir, "rows_per_step=1", "epochs=0", "schedule=constant"},
				c.words...)
			require.NoError(t, run(t, t.Context(), c.method, &listener{}, append(words, "max_steps=1")...))
			before := read(t, dir, 1)
			delete(before, "metrics.jsonl") // lines after the checkpoint are set aside
			err := run(t, t.Context(), c.method, &listener{}, append(words, "max_steps=3", "learning_rate="+c.rate)...)
			require.True(t, badinput.Is(err), "%v", err)
			require.ErrorContains(t, err, "lower learning_rate, which is "+c.rate+" now: type grpo "+c.method+" run_dir="+dir+
				" learning_rate=0.001 to go on from the last checkpoint, if there is one")
			saved, err := filepath.Glob(filepath.Join(dir, "checkpoints", "step_*"))
			require.NoError(t, err)
			require.Len(t, saved, 1)
			after := read(t, dir, 1)
			delete(after, "metrics.jsonl")
			require.True(t, maps.Equal(before, after))
		})
	}
}
