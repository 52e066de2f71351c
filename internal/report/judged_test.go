package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Evaluations in which nothing was judged have no share, and no empty section.
func TestEvaluationsThatJudgedNothing(t *testing.T) {
	failed := `{"kind":"evaluation","step":N,"problems":3,"pass@1_greedy":0,"pass@1_greedy_ci":[0,1],"not_judged":9,` +
		`"k":2,"pass@1":0,"pass@k":null}`
	for _, line := range []string{failed, `{"kind":"evaluation","step":N,"problems":3,"pass@1_greedy":null}`} {
		dir, text := t.TempDir(), `{"step":1,"mean_reward":0.5}`+"\n"
		for _, step := range []string{"0", "2", "4"} {
			text += strings.ReplaceAll(line, "N", step) + "\n"
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, "metrics.jsonl"), []byte(text), 0o644))
		page, err := LivePage(dir, "r", Idle, nil)
		require.NoError(t, err)
		require.NotContains(t, string(page), "<h2>Held-out")
		require.Contains(t, string(page), "Mean reward is 0.500 after 1 step")
	}
}
