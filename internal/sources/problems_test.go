package sources

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data/match"
)

// A misspelt column is reported before training, unless a reward file may use it.
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

// A run with copies of its data that may continue with other data reads what its settings name; the copies are not overwritten.
func TestACopyIsNotReadInPlaceOfOtherData(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	old, other := file("old.jsonl", `{"id":"a","prompt":"1?","answer":"1"}`), file("other.jsonl", `{"id":"b","prompt":"2?","answer":"2"}`)
	open := func(data, match string, allowed ...string) *Problems {
		p, err := OpenAll(t.Context(), &configs.Config{Data: data, AnswerMatch: match, CacheDataset: true, RunDir: dir, AllowChange: allowed},
			func(string) {})
		require.NoError(t, err)
		t.Cleanup(func() { p.Close() })
		return p
	}
	require.NoError(t, open(old, "exact").WriteCopies(t.Context()))
	require.Equal(t, "a", open(other, "exact").Train[0].ID, "other data was not allowed")
	p := open(other, "exact", "data")
	require.Equal(t, "b", p.Train[0].ID)
	require.ErrorContains(t, p.WriteCopies(t.Context()), "holds another data set")
	tests, err := open(old, "regex", "answer_match").Train[0].Tests(t.Context())
	require.NoError(t, err)
	require.Equal(t, match.Regex, tests[0].Match.By)
	require.NoError(t, os.Remove(old))
	require.Equal(t, "a", open(old, "exact", "seed").Train[0].ID)
}

// An evaluation with more completions than memory is refused before anything is loaded.
func TestTooManyCompletionsOfHeldOutProblems(t *testing.T) {
	cfg := &configs.Config{Data: Embedded, TestData: Embedded, AnswerMatch: "row", EvalSamples: configs.MostSamples, EvalEvery: 10}
	_, err := OpenAll(t.Context(), cfg, func(string) {})
	require.ErrorContains(t, err, "eval_samples: found 1048576 of each of 210 problems, expected at most 4194304 in all; "+
		"type eval_samples=19972")
	cfg.EvalEvery = -1
	p, err := OpenAll(t.Context(), cfg, func(string) {})
	require.NoError(t, err, "nothing is evaluated")
	require.NoError(t, p.Close())
}
