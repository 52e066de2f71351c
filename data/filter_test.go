package data

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

func TestFilter(t *testing.T) {
	set := []Problem{
		{ID: "a", Source: "taco", Statement: "éé", NumTests: 1},
		{ID: "b", Source: "taco", Statement: "ééééé", NumTests: 5},
		{ID: "c", Source: "lcb", Statement: "ccc", NumTests: 9},
	}
	for _, c := range []struct {
		f    Filter
		kept []string
		n    Dropped
	}{
		{Filter{}, []string{"a", "b", "c"}, Dropped{}},
		{Filter{MinTests: 2, MaxTests: 8}, []string{"b"}, Dropped{FewTests: 1, ManyTests: 1}},
		{Filter{MinTests: 5, MaxTests: 5}, []string{"b"}, Dropped{FewTests: 1, ManyTests: 1}},
		{Filter{MinPromptChars: 3, MaxPromptChars: 3}, []string{"c"}, Dropped{ShortPrompt: 1, LongPrompt: 1}},
		{Filter{MinPromptChars: 3, MaxPromptChars: 4}, []string{"c"}, Dropped{ShortPrompt: 1, LongPrompt: 1}},
		{Filter{MaxPromptChars: 4, TruncatePrompts: true}, []string{"a", "b", "c"}, Dropped{Truncated: 1}},
		{Filter{Sources: []string{"lcb"}}, []string{"c"}, Dropped{OtherSource: 2}},
	} {
		kept, n, err := c.f.Apply(set)
		require.NoError(t, err)
		require.Equal(t, c.kept, ids(kept))
		require.Equal(t, c.n, n)
		if c.n.Truncated > 0 {
			require.Equal(t, "éééé", kept[1].Statement)
		}
	}
	require.Equal(t, "ééééé", set[1].Statement, "the set itself is not changed")

	for _, bad := range []Filter{{MinTests: -1}, {MinTests: 3, MaxTests: 2}, {MinPromptChars: 3, MaxPromptChars: 2},
		{TruncatePrompts: true}, {Sources: []string{"tacco"}}} {
		_, _, err := bad.Apply(set)
		require.True(t, badinput.Is(err), "%+v", bad)
	}
	_, _, err := Filter{Sources: []string{"tacco"}}.Apply(set)
	require.ErrorContains(t, err, "the sources are lcb, taco")
}

func TestBlocklist(t *testing.T) {
	path := filepath.Join(t.TempDir(), "blocked")
	require.NoError(t, os.WriteFile(path, []byte("\ufeffos._exit\r\n\n# type: \n  \nsys.settrace"), 0o644))
	b, err := LoadBlocklist(path)
	require.NoError(t, err)
	require.Equal(t, Blocklist{"os._exit", "# type: ", "sys.settrace"}, b)
	got, found := b.Find("import os; os._exit(0)")
	require.True(t, found)
	require.Equal(t, "os._exit", got)
	_, found = b.Find("os.exit # type:x")
	require.False(t, found)
	_, found = Blocklist(nil).Find("anything")
	require.False(t, found)

	for _, text := range []string{"\n \n", "\xff"} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		_, err = LoadBlocklist(path)
		require.True(t, badinput.Is(err))
	}
	_, err = LoadBlocklist(path + ".none")
	require.True(t, badinput.Is(err))
}
