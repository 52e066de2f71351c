package handover

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/stats"
	"github.com/seed-7879b91d/grpo/internal/warmup"
)

// results has the results in metrics.jsonl for the card.
type results struct {
	evaluations []grpo.Evaluation
	held        []warmup.HeldOut // rows of a warm-up
	inForce     map[string]float64
}

// readFound reads them; without the file there are none.
func readFound(dir string, step int) (f results, err error) {
	path := filepath.Join(dir, "metrics.jsonl")
	if f.evaluations, err = jsonl.OfKind[grpo.Evaluation](path, "evaluation"); errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return f, err
	}
	judged, err := provenance.JudgedOf(dir)
	for i := range f.evaluations { // later ones may be on other problems
		f.evaluations[i].Judged = judged[f.evaluations[i].Step]
	}
	if err == nil {
		f.held, err = jsonl.OfKind[warmup.HeldOut](path, "held_out")
	}
	if err != nil {
		return f, err
	}
	steps, err := jsonl.OfKind[struct {
		Step      int                `json:"step"`
		Autopilot map[string]float64 `json:"autopilot"`
	}](path, "")
	for _, s := range steps {
		if s.Step == step {
			f.inForce = s.Autopilot
		}
	}
	return f, err
}

// problems is the table of held-out problems, before and after.
func (f results) problems(line func(string, ...any), step int) {
	line("## Held-out problems\n")
	var first, last *grpo.Evaluation
	failed := false
	for i, e := range f.evaluations {
		if e.Problems == 0 || e.Step > step {
			continue
		}
		if stats.Unjudged(e.Greedy, e.GreedyCI) {
			failed = true
		} else {
			if last = &f.evaluations[i]; first == nil || !first.SameProblems(last) {
				first = last
			}
		}
	}
	switch {
	case first == nil && failed:
		line("Nothing was judged: the machine failed throughout.\n")
		return
	case first == nil:
		line("Nothing was evaluated.\n")
		return
	}
	row := table(line, "problems", first.Step, last.Step, last.Problems)
	share := func(e *grpo.Evaluation) string {
		return fmt.Sprintf("%.3f (%.3f to %.3f)", e.Greedy, e.GreedyCI[0], e.GreedyCI[1])
	}
	row("pass@1, greedy", share(first), share(last))
	if a, b := first.Sampled, last.Sampled; a != nil && b != nil {
		row("pass@1, sampled", threeDecimals(a.PassAt1), threeDecimals(b.PassAt1))
		row(fmt.Sprintf("pass@%d, sampled", b.K), a.AtK(first.Problems), b.AtK(last.Problems))
	}
	line("\nIn parentheses the interval of 95 %%, from resampling the problems.\n")
	unevaluated(line, last.Step, step)
}

// rows is the table of a warm-up's held-out rows, before and after.
func (f results) rows(line func(string, ...any), step int) {
	line("## Held-out rows\n")
	var first, last *warmup.HeldOut
	for i, h := range f.held {
		if h.Step <= step {
			if last = &f.held[i]; first == nil || first.Rows != h.Rows || first.Tokens != h.Tokens {
				first = last
			}
		}
	}
	if first == nil {
		line("None were held out.\n")
		return
	}
	row := table(line, "rows", first.Step, last.Step, last.Rows)
	row("loss", threeDecimals(first.Loss), threeDecimals(last.Loss))
	if a, b := first.Preferences, last.Preferences; a != nil && b != nil {
		row("pairs whose chosen answer has the higher reward", threeDecimals(a.Accuracy), threeDecimals(b.Accuracy))
		row("reward margin", display.Reward(a.Margin), display.Reward(b.Margin))
		line("\nA reward is dpo_beta times log p − log p of the policy that the run began with.\n")
	} else {
		line("\nThe loss is the mean of −log p over the tokens of what the assistant says.\n")
	}
	unevaluated(line, last.Step, step)
}

func threeDecimals(v float64) string { return fmt.Sprintf("%.3f", v) }

// table starts a table about n things, and returns a function that adds a row. After a single evaluation it has one column.
func table(line func(string, ...any), unit string, first, last, n int) func(what, before, after string) {
	if first == last {
		line("| | %s | step %d |\n|---|---|---|", unit, last)
		return func(what, _, after string) { line("| %s | %d | %s |", what, n, after) }
	}
	line("| | %s | before (step %d) | step %d |\n|---|---|---|---|", unit, first, last)
	return func(what, before, after string) { line("| %s | %d | %s | %s |", what, n, before, after) }
}

func unevaluated(line func(string, ...any), last, step int) {
	if last != step {
		line("The weights are those of step %d, which was not evaluated itself.\n", step)
	}
}

// autopilot says which settings the autopilot changed.
func (f results) autopilot(line func(string, ...any)) {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(f.inForce)) {
		words = append(words, fmt.Sprintf("`%s` %v", key, f.inForce[key]))
	}
	if len(words) > 0 {
		line("The autopilot changed some on the way. At this step it had others in force: %s.\n", strings.Join(words, ", "))
	}
}
