package provenance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// An unexpanded ~, as in a file of settings, does not create a folder of that name; an existing run in one can be resumed.
func TestATildeIsNoRunDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("HOME", "/home/ada")
	for dir, want := range map[string]string{
		"~/runs/a": "run_dir=/home/ada/runs/a, or run_dir='./~/runs/a'", "~": "run_dir=/home/ada, or run_dir='./~'",
	} {
		_, err := CheckRunDir(dir, nil)
		require.ErrorContains(t, err, "type "+want)
		require.True(t, badinput.Is(err))
	}
	_, err := CheckRunDir("./~/runs/a", nil)
	require.NoError(t, err)
	run := filepath.Join("~", "runs", "old")
	require.NoError(t, os.MkdirAll(run, 0o755))
	first, err := json.Marshal(configs.Defaults())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(run, ConfigFile), first, 0o644))
	_, err = CheckRunDir(run, nil)
	require.NoError(t, err)
}
