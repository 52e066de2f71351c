package report

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A warm-up ends after its last epoch; before that, the command to resume it is its own verb.
func TestAWarmUpEndsWithItsEpochs(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"config.json":   `{"method": "sft", "epochs": 2, "rows_per_step": 16, "max_steps": -1}`,
		"manifest.json": `{"problems": 38}`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	lines := ""
	for step := 1; step <= 5; step++ {
		lines += fmt.Sprintf(`{"step": %d, "loss": 1}`+"\n", step)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "metrics.jsonl"), []byte(lines), 0o644))
		run, err := ReadRun(dir, "r", Idle)
		require.NoError(t, err)
		require.Equal(t, step == 5, run.State == Complete, "step %d", step)
		page, err := LivePage(dir, "r", Idle, nil)
		require.NoError(t, err)
		if step == 4 {
			require.Contains(t, string(page), "grpo sft run_dir="+dir)
			require.Contains(t, string(page), "4 of 5")
		}
	}
}
