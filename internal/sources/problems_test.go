package sources

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
)

// A misspelt column is told of before anything is trained, unless a reward file may be given it.
func TestMisspeltColumnsAreTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(
		`{"prompt":"p","tolerence":1,"chekcer":"x","level":3,"tests":[{"stdin":"","stdout":"1"}]}`+"\n"), 0o644))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for file, want := range map[string][]string{"r.py": nil, "": {"data=" + path +
		": 2 columns are not read: chekcer (did you mean checker?), tolerence (did you mean tolerance?)"}} {
		var told []string
		p, err := OpenAll(t.Context(), &configs.Config{Data: path, RewardFile: file, AnswerMatch: "row"},
			func(s string) { told = append(told, s) })
		require.NoError(t, err)
		require.NoError(t, p.Close())
		require.Equal(t, want, told)
	}
}
