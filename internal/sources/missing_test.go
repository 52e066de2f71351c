package sources

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// A missing file is reported with its setting, where it was searched, and what to type.
func TestAbsentFilesAreToldOf(t *testing.T) {
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	require.NoError(t, err)
	run := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(run, "config.json"), nil, 0o600))
	const goesOn = "; start in the directory where the run began, or type data=PATH allow_change=data"
	for _, c := range []struct{ data, test, run, says string }{
		{"tasks.jsonl", "", "", "data tasks.jsonl: no such file in " + here + "; type data=PATH"},
		{"tiny", "held.jsonl", "", "test_data held.jsonl: no such file in " + here + "; type test_data=PATH"},
		{"/nowhere/tasks.jsonl", "", "new", "data /nowhere/tasks.jsonl: no such file; type data=PATH"},
		{"tasks.jsonl", "", run, "data tasks.jsonl: no such file in " + here + goesOn},
	} {
		cfg := configs.Defaults()
		cfg.Data, cfg.TestData, cfg.RunDir = c.data, c.test, c.run
		_, err := OpenAll(t.Context(), &cfg, nil)
		require.EqualError(t, err, c.says)
		require.True(t, badinput.Is(err))
	}
}

// The same for a prompt template, also in an evaluation of a run.
func TestAbsentWordsAreToldOf(t *testing.T) {
	t.Chdir(t.TempDir())
	run := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(run, "config.json"), nil, 0o600))
	const open = ": open words.tmpl: no such file or directory"
	for dir, says := range map[string]string{"": "KEY" + open + "; type KEY=FILE", "new": "KEY" + open + "; type KEY=FILE",
		run: "KEY" + open + "; start in the directory where the run began, or resume the run with KEY=FILE allow_change=KEY"} {
		cfg := configs.Defaults()
		cfg.PromptTemplate, cfg.HealTemplate, cfg.RunDir = "words.tmpl", "words.tmpl", dir
		_, err := PromptTemplate(&cfg)
		require.EqualError(t, err, strings.ReplaceAll(says, "KEY", "prompt_template"))
		require.True(t, badinput.Is(err))
		_, err = HealTemplate(&cfg)
		require.EqualError(t, err, strings.ReplaceAll(says, "KEY", "heal_template"))
		require.True(t, badinput.Is(err))
	}
}

// The same for the model of a run, whose path may look like a name on the Hub from elsewhere.
func TestAbsentModelsOfRunsAreToldOf(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("HF_HUB_OFFLINE", "1")
	t.Setenv("HF_HOME", t.TempDir())
	run := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(run, "config.json"), nil, 0o600))
	const says = " is a folder, start in the directory where the run began"
	for _, model := range []string{"models/mine", "./mine", "a/b/c"} {
		cfg := configs.Defaults()
		cfg.Model, cfg.RunDir = model, run
		_, err := OpenLanguage(t.Context(), &cfg)
		require.ErrorContains(t, err, "; if "+model+says)
		require.True(t, badinput.Is(err))
		cfg.RunDir = "new"
		_, err = OpenLanguage(t.Context(), &cfg)
		require.Error(t, err)
		require.NotContains(t, err.Error(), says)
	}
}
