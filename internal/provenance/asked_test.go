package provenance

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/sources"
)

// If the files of a run's environment, or of its blocked strings, were edited since, a later evaluation that uses them reports it; one
// that does not, or that names other files, does not.
func TestEditedFilesOfAnEnvironmentAreTold(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	for key, run := range map[string]*configs.Config{
		"env":              {Env: "program:" + file("env.py", "a")},
		"heal_template":    {Env: "heal", HealTemplate: file("heal", "a")},
		"mcp":              {Env: "tools", MCP: file("mcp.json", "{}")},
		"blocklist":        {Blocklist: file("blocked", "a")},
		"openenv_template": {Env: "openenv:http://127.0.0.1:1", OpenEnvTemplate: file("openenv", "a")},
	} {
		before, err := FingerprintInputs(run, &sources.Problems{}, false)
		require.NoError(t, err)
		told := func(now configs.Config, converses bool) (warnings []string) {
			_, err := EvaluationInputs{Config: &now, Run: run, Problems: &sources.Problems{}, MultiTurn: converses}.Compare(before, func(w string) {
				warnings = append(warnings, w)
			})
			require.NoError(t, err)
			return warnings
		}
		require.Empty(t, told(*run, true))
		for _, path := range []string{run.EnvProgram(), run.HealTemplate, run.MCP, run.OpenEnvTemplate, run.Blocklist} {
			if path != "" {
				file(filepath.Base(path), `{"b":1}`)
			}
		}
		warnings := told(*run, true)
		require.Len(t, warnings, 1, key)
		require.Contains(t, warnings[0], "changed since the run was trained, so results do not compare with the run's: "+key+": has the SHA-256")
		require.Empty(t, told(*run, false), key)
		other := configs.Config{Env: "program:" + file("other.py", "a"), Blocklist: file("other", "a")}
		require.Empty(t, told(other, true), "files that the settings name anew give no warning")
	}
}

// Problems of another split, and built-in templates, are not compared.
func TestWhatIsNamedAnewIsNotTold(t *testing.T) {
	template := filepath.Join(t.TempDir(), "template")
	require.NoError(t, os.WriteFile(template, []byte("{{.Statement}}"), 0o644))
	before := Parts{"test_data": {SHA256: "a"}, "prompt_template": {SHA256: "b"}}
	for _, c := range []struct {
		split, template string
		told            int
	}{{"test", "", 1}, {"train", "", 0}, {"train", template, 1}, {"test", template, 2}} {
		run := configs.Config{TestData: sources.Embedded, TestSplit: "test", PromptTemplate: c.template}
		now, told := run, 0
		now.TestSplit = c.split
		same, err := EvaluationInputs{Config: &now, Run: &run, Problems: &sources.Problems{}}.Compare(before, func(string) { told++ })
		require.NoError(t, err)
		require.Equal(t, c.told, told, "%+v", c)
		require.Equal(t, c.split != "test", same)
	}
}
