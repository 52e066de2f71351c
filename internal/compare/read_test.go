package compare

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/stats"
)

// An unreadable line is named, with what to do about it.
func TestALineThatIsNone(t *testing.T) {
	bad := writtenRun{heldOut: "h", model: "m", steps: 1}.write(t, filepath.Join(t.TempDir(), "bad"))
	require.NoError(t, os.WriteFile(filepath.Join(bad, "metrics.jsonl"), []byte("{\"step\":1,\"kl\":NaN}\n"), 0o644))
	_, err := Open([]string{bad})
	require.True(t, badinput.Is(err))
	require.ErrorContains(t, err, "metrics.jsonl:1: invalid character 'N' looking for beginning of value; fix that line, or bring "+
		"the file back from a copy, or leave "+bad+" out")
}

// A step without scores has no reward, although its line says 0.
func TestAStepThatWasNotScored(t *testing.T) {
	dir := writtenRun{heldOut: "h", model: "m", steps: 1}.write(t, filepath.Join(t.TempDir(), "a"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "metrics.jsonl"), []byte(`{"step":1,"mean_reward":0.5,"completions":4,"excluded":3}
{"step":2,"mean_reward":0,"completions":4,"excluded":4}
`), 0o644))
	r, err := Read(dir)
	require.NoError(t, err)
	require.Equal(t, 0.5, r.Steps[0].Reward)
	require.NotEqual(t, r.Steps[1].Reward, r.Steps[1].Reward, "an unknown value is NaN")
}

// An evaluation in which the machine judged nothing has no share, although its line says 0.
func TestAnEvaluationThatJudgedNothing(t *testing.T) {
	dir := writtenRun{heldOut: "h", model: "m", steps: 1}.write(t, filepath.Join(t.TempDir(), "a"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "metrics.jsonl"), []byte(`{"kind":"evaluation","step":0,"problems":3,`+
		`"pass@1_greedy":0,"pass@1_greedy_ci":[0,1],"not_judged":9,"k":2,"pass@1":0,"pass@k":null}
{"kind":"evaluation","step":1,"problems":3,"pass@1_greedy":0,"pass@1_greedy_ci":[0,0.56],"k":2,"pass@1":0,"pass@k":0}
`), 0o644))
	r, err := Read(dir)
	require.NoError(t, err)
	none, some := r.Evaluations[0], r.Evaluations[1]
	require.NotEqual(t, none.Greedy, none.Greedy, "an unknown value is NaN")
	require.NotEqual(t, none.PassAt1, none.PassAt1, "an unknown value is NaN")
	require.Equal(t, []float64{0, 0}, []float64{some.Greedy, some.PassAt1})
}

// If lists in a line have different lengths, the common part is compared.
func TestALineWithoutAllItsResults(t *testing.T) {
	whole, cut := judged(4, 1, 0, 1), judged(4, 0, 1)
	cut.Problems = append(cut.Problems, "p2")
	for _, runs := range [][2]stats.Judged{{whole, cut}, {cut, whole}} {
		c := written(t, writtenRun{heldOut: "h", model: "m", steps: 4, evaluations: runs[:1]},
			writtenRun{heldOut: "h", model: "m", steps: 4, evaluations: runs[1:]})
		p := c.Pairs[0]
		require.Equal(t, 2, p.Greedy.Change.Problems)
		require.Len(t, slices.Concat(p.Greedy.Won, p.Greedy.Lost), 2)
	}
}

func TestRunsAreNamedApart(t *testing.T) {
	folder := t.TempDir()
	m := writtenRun{heldOut: "h", model: "m", steps: 1}
	runs, err := Open([]string{m.write(t, filepath.Join(folder, "x", "r")), m.write(t, filepath.Join(folder, "y", "r"))})
	require.NoError(t, err)
	require.Equal(t, []string{"x/r", "y/r"}, []string{runs[0].Name, runs[1].Name})
	require.NoError(t, os.WriteFile(filepath.Join(folder, "y", "sweep.json"), nil, 0o644))
	_, err = Open([]string{runs[0].Dir, runs[0].Dir, filepath.Join(folder, "none"), filepath.Join(folder, "y"), filepath.Join(folder, "x")})
	require.True(t, badinput.Is(err))
	for _, said := range []string{"there twice", "none: there is none", "is a sweep; type its runs", "is not the directory of a run"} {
		require.ErrorContains(t, err, said)
	}
	_, err = New(runs, 0, 3)
	require.ErrorContains(t, err, "no evaluation after it; it has some after none")
}
