package handover

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/provenance"
)

// cardText is the part of a card that is made from lines of metrics.jsonl for a step.
func cardText(t *testing.T, step int, of func(f results, line func(string, ...any)), lines ...string) string {
	t.Helper()
	dir := t.TempDir()
	for name, with := range map[string]bool{"metrics.jsonl": false, "evaluations.jsonl": true} {
		var text strings.Builder
		for _, line := range lines {
			if strings.Contains(line, `"correct":[`) == with {
				text.WriteString(line + "\n")
			}
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text.String()), 0o644))
	}
	f, err := readFound(dir, step)
	require.NoError(t, err)
	var b strings.Builder
	of(f, func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) })
	return b.String()
}

// A warm-up is judged by its held-out rows: the card has these results, and counts rows.
func TestTheCardOfAWarmUp(t *testing.T) {
	after := func(step int) func(f results, line func(string, ...any)) {
		return func(f results, line func(string, ...any)) { f.rows(line, step) }
	}
	taught := []string{`{"kind":"held_out","step":0,"rows":9,"tokens":167,"loss":1.516,"loss_per_sequence":28.1}`, `{"step":1,"loss":1.4}`,
		`{"kind":"held_out","step":3,"rows":9,"tokens":167,"loss":1.391,"loss_per_sequence":25.8}`,
		`{"kind":"held_out","step":6,"rows":9,"tokens":167,"loss":1.341,"loss_per_sequence":24.8}`}
	text := cardText(t, 6, after(6), taught...)
	require.Contains(t, text, "| | rows | before (step 0) | step 6 |")
	require.Contains(t, text, "| loss | 9 | 1.516 | 1.341 |")
	require.NotContains(t, text, "not evaluated")
	text = cardText(t, 4, after(4), taught...)
	require.Contains(t, text, "| loss | 9 | 1.516 | 1.391 |")
	require.Contains(t, text, "The weights are those of step 4, which was not evaluated itself.")
	require.Contains(t, cardText(t, 1, after(1), taught[1]), "None were held out.")

	text = cardText(t, 3, after(3), `{"kind":"held_out","step":0,"rows":3,"tokens":90,"loss":0.6931,"reward_margin":0,"accuracy":0}`,
		`{"kind":"held_out","step":3,"rows":3,"tokens":90,"loss":0.5,"reward_margin":0.25,"accuracy":0.667}`)
	require.Contains(t, text, "| pairs whose chosen answer has the higher reward | 3 | 0.000 | 0.667 |")
	require.Contains(t, text, "| reward margin | 3 | 0.000 | 0.250 |")

	cfg := configs.Defaults()
	cfg.Method, cfg.Data = configs.SFT, "/rows/sft.jsonl"
	require.Equal(t, "34 rows of sft.jsonl", problems(provenance.Manifest{Problems: 34}, &cfg))
	require.Equal(t, configs.SFT, kind(&cfg))
	require.NotContains(t, howToReproduce(&cfg), "grpo replay", "a warm-up cannot be replayed")
}

// A single evaluation gives no comparison of before and after.
func TestTheCardOfARunThatWasEvaluatedOnce(t *testing.T) {
	text := cardText(t, 3, func(f results, line func(string, ...any)) { f.problems(line, 3) },
		`{"kind":"evaluation","step":0,"problems":64,"pass@1_greedy":0.328,"pass@1_greedy_ci":[0.219,0.438],"format_rate":1}`,
		`{"kind":"evaluation","step":4,"problems":64,"pass@1_greedy":0.359,"pass@1_greedy_ci":[0.234,0.484],"format_rate":1}`)
	require.Contains(t, text, "| | problems | step 0 |\n|---|---|---|\n| pass@1, greedy | 64 | 0.328 (0.219 to 0.438) |\n")
}

// Without an evaluation the card says so, and has no numbers.
func TestTheCardOfARunThatWasNeverJudged(t *testing.T) {
	const failed = `{"kind":"evaluation","step":0,"problems":64,"pass@1_greedy":0,"pass@1_greedy_ci":[0,1],"not_judged":64}`
	problems := func(f results, line func(string, ...any)) { f.problems(line, 4) }
	require.Equal(t, "## Held-out problems\n\nNothing was judged: the machine failed throughout.\n\n", cardText(t, 4, problems, failed))
	require.Equal(t, "## Held-out problems\n\nNothing was evaluated.\n\n", cardText(t, 4, problems))
	text := cardText(t, 4, problems, failed,
		`{"kind":"evaluation","step":4,"problems":64,"pass@1_greedy":0.359,"pass@1_greedy_ci":[0.234,0.484],"format_rate":1}`)
	require.Contains(t, text, "| | problems | step 4 |\n|---|---|---|\n| pass@1, greedy | 64 | 0.359 (0.234 to 0.484) |\n")
}

// Evaluations of equally many, but other, problems are not compared.
func TestTheCardComparesTheSameProblems(t *testing.T) {
	eval := `{"kind":"evaluation","step":%d,"problems":2,"pass@1_greedy":0.5,"pass@1_greedy_ci":[0.1,0.9],"format_rate":1}`
	for ids, head := range map[string]string{`"c","d"`: "| | problems | step 4 |\n",
		`"a","b"`: "| | problems | before (step 0) | step 4 |\n"} {
		text := cardText(t, 4, func(f results, line func(string, ...any)) { f.problems(line, 4) }, fmt.Sprintf(eval, 0), fmt.Sprintf(eval, 4),
			`{"step":0,"problems":["a","b"],"correct":[1,0]}`, `{"step":4,"problems":[`+ids+`],"correct":[1,0]}`)
		require.Contains(t, text, head)
	}
}

// The card has the settings that the autopilot had in force, not only those of the run.
func TestTheCardSaysWhatTheAutopilotHadInForce(t *testing.T) {
	autopilot := func(f results, line func(string, ...any)) { f.autopilot(line) }
	text := cardText(t, 2, autopilot, `{"step":1}`, `{"step":2,"autopilot":{"temperature":1.2,"learning_rate":0.005}}`, `{"step":3}`)
	require.Contains(t, text, "in force: `learning_rate` 0.005, `temperature` 1.2.")
	require.Empty(t, cardText(t, 2, autopilot, `{"step":2}`))
}
