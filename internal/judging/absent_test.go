package judging

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/sources"
)

// A missing file named by a setting is refused with what to type, before any program runs.
func TestAbsentFilesAreToldOf(t *testing.T) {
	t.Chdir(t.TempDir())
	run := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(run, "config.json"), nil, 0o600))
	for key, set := range map[string]func(*configs.Config, string){
		"blocklist":    func(c *configs.Config, path string) { c.Blocklist = path },
		"reward_file":  func(c *configs.Config, path string) { c.RewardFile = path },
		"judge_prompt": func(c *configs.Config, path string) { c.JudgePrompt = path },
	} {
		for dir, says := range map[string]string{"": "; type " + key + "=FILE",
			run: "; start in the directory where the run began, or resume the run with " + key + "=FILE allow_change=" + key} {
			cfg := configs.Defaults()
			cfg.RunDir = dir
			set(&cfg, "words.txt")
			_, err := Open(t.Context(), &cfg, nil, nil, &sources.Problems{}, nil)
			require.EqualError(t, err, key+": stat words.txt: no such file or directory"+says)
			require.True(t, badinput.Is(err))
		}
	}
}
