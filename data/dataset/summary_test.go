package dataset

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/badinput"
)

func TestHistogram(t *testing.T) {
	h := newHistogram(2, 5)
	for _, v := range []int{0, 1, 2, 4, 5, 99} {
		h.add(v)
	}
	require.Equal(t, []int{2, 2, 2}, h.Counts)
	require.Equal(t, []string{"0-1", "2-4", "5+"}, []string{h.Label(0), h.Label(1), h.Label(2)})
}

func TestSummary(t *testing.T) {
	set := open(t, write(t, t.TempDir(), "mix.jsonl", allShapes()), Options{})
	sum := set.Summary()
	require.Equal(t, []Group{{"mine", data.Stdin, 1, 1}, {"mix", data.Stdin, 6, 8}, {"mix", data.Call, 7, 11}}, sum.Groups)
	require.Len(t, sum.Refusals, 3)
	require.Equal(t, Duplicate, sum.Refusals[0].Reason)
	require.Equal(t, 1, sum.Refusals[0].Rows)
}

// Drift compares the files of a set with those when a run began; the same problems from elsewhere count as the same.
func TestDrift(t *testing.T) {
	then := Manifest{SHA256: "a", Version: 3, Problems: 7, Files: []File{{Name: "same", SHA256: "1"}, {Name: "other", SHA256: "2"},
		{Name: "gone", SHA256: "3"}}}
	now := Manifest{SHA256: "b", Version: 3, Problems: 8, Files: []File{{Name: "same", SHA256: "1"}, {Name: "other", SHA256: "9"},
		{Name: "new", SHA256: "4"}}}
	const said = "the data set is not the one this run was started with: fingerprint b…, was a…; "
	require.Equal(t, said+"other has changed, new is new, gone is gone, 8 problems, were 7", now.Drift(then))
	now.Version, now.Files = 4, then.Files
	require.Equal(t, said+"the normal form is version 4, was 3, 8 problems, were 7", now.Drift(then))
	now.SHA256, now.Files = "a", nil
	require.Empty(t, now.Drift(then))
}

// Records returns rows as they are, without making problems of them; a line that is no row is an error with its position.
func TestRecords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(`{"a":[1, 2],"b":null,"prompt":"x"}`+"\n\n"+`{"c":"d"}`+"\n"), 0o644))
	var all []Record
	add := func(r Record) error { all = append(all, r); return nil }
	origin, err := Records(t.Context(), path, Options{}, add)
	require.NoError(t, err)
	require.Len(t, origin.SHA256, 64)
	require.Len(t, all, 2)
	require.Equal(t, []string{`"x"`, `"d"`}, []string{string(all[0].Cells["prompt"]), string(all[1].Cells["c"])})
	require.JSONEq(t, "[1, 2]", string(all[0].Cells["a"]))
	require.NotContains(t, all[0].Cells, "b")
	require.Contains(t, all[1].Where, "rows.jsonl:3")

	require.NoError(t, os.WriteFile(path, []byte(`{"a":1}`+"\n[2]\n"), 0o644))
	_, err = Records(t.Context(), path, Options{}, add)
	require.True(t, badinput.Is(err))
	require.ErrorContains(t, err, "rows.jsonl:2")
}
