package conversation

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/judging"
	"github.com/seed-7879b91d/grpo/internal/sources"
	"github.com/seed-7879b91d/grpo/reward"
)

// After a wrong program the model is shown the first public test that it fails, and no other; a right one ends the episode.
func TestHealing(t *testing.T) {
	words := filepath.Join(t.TempDir(), "words")
	const all = "{{.Program}} {{.Verdict}} {{.Test}}/{{.Of}} {{.Outcome}} {{.Input}} {{.Expected}} {{.Got}}\n"
	require.NoError(t, os.WriteFile(words, []byte(all), 0o644))
	cfg, l, j, p := openParts(t, "heal_template="+words, "turn_reward=discounted", "turn_discount=0.25", "public_tests=2")
	r, err := Open(t.Context(), cfg, l, j, &sources.Problems{}, nil)
	require.NoError(t, err)
	e, err := r.env.Open(t.Context(), &p)
	require.NoError(t, err)
	a, err := e.Turn(t.Context(), said(wrong, 0, false))
	require.NoError(t, err)
	require.Equal(t, "true WA 1/2 wrong answer 37 42 43", a.Messages[0].Content)
	require.Equal(t, []any{false, 0.0}, []any{a.Over, a.Reward})
	a, err = e.Turn(t.Context(), said("I do not know", 1, false))
	require.NoError(t, err)
	require.Equal(t, "false  0/0    ", a.Messages[0].Content)
	require.Equal(t, -0.1, a.Reward)
	a, err = e.Turn(t.Context(), said(right, 2, false))
	require.NoError(t, err)
	require.Equal(t, []any{true, 0.25 * 0.25, 1.0}, []any{a.Over, a.Reward, a.Score.Reward})
	require.Empty(t, a.Messages, "a solved problem gets no further message")
	require.NoError(t, e.Close())

	text, err := sources.HealTemplate(&configs.Config{})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(words, []byte(text+"{{.Trace}}"), 0o644))
	r, err = Open(t.Context(), cfg, l, j, &sources.Problems{}, nil)
	require.NoError(t, err)
	e, err = r.env.Open(t.Context(), &p)
	require.NoError(t, err)
	a, err = e.Turn(t.Context(), said(wrong, 0, false))
	require.NoError(t, err)
	require.Contains(t, a.Messages[0].Content, "Your program fails a test: wrong answer.\n\nInput:\n37\n\nExpected:\n42\n\nGot:\n43\n\nFind")
	require.Contains(t, a.Messages[0].Content, "1 | print(int(input()) + 6)")
	a, err = e.Turn(t.Context(), said("```python\np = int(input())\nprint(p + 5 * (p > 30))\n```", 1, false))
	require.NoError(t, err)
	require.Equal(t, "WA", string(a.Score.Verdict))
	require.NotContains(t, a.Messages[0].Content, "1 | ", "no test that is shown fails, so there is nothing to trace")
	require.NotContains(t, a.Messages[0].Content, "error")
	a, err = e.Turn(t.Context(), said(wrong, 2, true))
	require.NoError(t, err)
	require.Empty(t, a.Messages, "after the last turn there is no message")

	for spoilt, message := range map[string]string{
		"{{.Nothing}}":            "in type *conversation.Finding; there are .Statement .Kind .FuncName .Program .Verdict .Test .Of",
		"{{if .Program}}x{{end}}": "it writes nothing for a program",
		"{{":                      "heal_template: template: heal_template:1",
	} {
		require.NoError(t, os.WriteFile(words, []byte(spoilt), 0o644))
		_, err := Open(t.Context(), cfg, l, j, &sources.Problems{}, nil)
		require.ErrorContains(t, err, message)
		require.True(t, badinput.Is(err))
	}
}

// If tests may not be shown, the run says so at its start, with the number of problems.
func TestHealingWithoutTestsToShow(t *testing.T) {
	cfg, l, j, p := openParts(t, "public_tests=0")
	seen := p.WithTests(data.Test{Stdin: "37\n", Stdout: "42\n"}, data.Test{Stdin: "5\n", Stdout: "10\n", Public: true})
	answer := data.Problem{ID: "word", Kind: data.Answer}
	right := func(context.Context, reward.Completion) (reward.Score, error) { return reward.Score{Reward: 1}, nil }
	own, err := judging.Open(t.Context(), cfg, reward.GraderFunc(right), nil, &sources.Problems{}, func(string) {})
	require.NoError(t, err)
	both := sources.Problems{Train: []data.Problem{p, answer}, HeldOut: []data.Problem{seen}}
	for _, c := range []struct {
		j      *judging.Judging
		p      sources.Problems
		public int
		says   string
	}{
		{j, both, 0, "env=heal: 1 of 2 problems have no public test, so the model is told only the verdict of its program; " +
			`mark tests "public": true, or set public_tests=1`},
		{j, sources.Problems{Train: slices.Repeat([]data.Problem{p}, mostInspected+1)}, 0, "1000 of the first 1000 problems have no public test"},
		{own, both, 1, "programs do not run in the local sandbox and no test is shown"},
		{j, both, 1, ""},
		{j, sources.Problems{HeldOut: both.HeldOut}, 0, ""},
		{own, sources.Problems{Train: []data.Problem{answer}}, 0, ""},
	} {
		cfg.PublicTests = c.public
		r, err := Open(t.Context(), cfg, l, c.j, &c.p, nil)
		require.NoError(t, err)
		require.Len(t, r.Notes, min(len(c.says), 1))
		require.Contains(t, strings.Join(r.Notes, "\n"), c.says)
	}
}
