package provenance

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/rundir"
)

// A run that begins with a warm-up, or the other way round, takes the weights of the last intact checkpoint; one that begins with a run
// of its own kind is a fork, and takes the whole state.
func TestWhatIsTakenOfAWarmup(t *testing.T) {
	run := t.TempDir()
	of := configs.Defaults()
	of.RunDir, of.Method, of.Train = run, "sft", "lora"
	require.NoError(t, beginRun(t, run, &of, ResumeOrigin{}, Start{}, ""))
	saved := func(step int) (adapter string) {
		checkpoint := filepath.Join(run, rundir.Checkpoints, rundir.Name(step))
		adapter = filepath.Join(checkpoint, AdapterDir)
		require.NoError(t, os.MkdirAll(adapter, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(adapter, "weights"), []byte{byte(step)}, 0o644))
		sums, err := rundir.Checksums(checkpoint)
		require.NoError(t, err)
		text, err := rundir.Seal(struct {
			Version  int               `json:"version"`
			Checksum map[string]string `json:"sha256"`
			Seal     string            `json:"seal"`
		}{newestState, sums, ""})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(checkpoint, rundir.StateFile), text, 0o644))
		return adapter
	}
	from := func(method, train, named string) (*configs.Config, error) {
		cfg := configs.Defaults()
		cfg.Method, cfg.Train, cfg.InitFrom = method, train, named
		return &cfg, takeWeights(&cfg)
	}
	_, err := from("grpo", "lora", run)
	require.ErrorContains(t, err, "no checkpoint to resume from")
	first, last := saved(1), saved(2)
	cfg, err := from("grpo", "lora", run)
	require.NoError(t, err)
	require.Equal(t, []string{last, ""}, []string{cfg.Adapter, cfg.InitFrom})
	_, err = from("grpo", "full", run)
	require.True(t, badinput.Is(err))
	require.ErrorContains(t, err, "has train=lora, and this run train=full; type train=lora")

	require.NoError(t, os.WriteFile(filepath.Join(last, "weights"), []byte("other"), 0o644))
	cfg, err = from("grpo", "lora", run)
	require.NoError(t, err)
	require.Equal(t, first, cfg.Adapter, "the last one is damaged")
	_, err = from("grpo", "lora", filepath.Dir(last))
	require.ErrorContains(t, err, "is damaged")

	for _, method := range []string{"grpo", "sft"} {
		run = t.TempDir()
		of.RunDir, of.Method = run, "grpo"
		require.NoError(t, beginRun(t, run, &of, ResumeOrigin{}, Start{}, ""))
		adapter := saved(3)
		cfg, err = from(method, "lora", run)
		require.NoError(t, err)
		want := []string{"", run}
		if method == "sft" {
			want = []string{adapter, ""}
		}
		require.Equal(t, want, []string{cfg.Adapter, cfg.InitFrom}, method)
	}
}
