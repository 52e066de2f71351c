package suites

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/stats"
)

// Markdown is the card for people.
func (c *Card) Markdown() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# %s: %s\n", c.Title, named(c))
	c.figures(line)
	line("\n## Settings\n\n| setting | value |\n|---|---|")
	for _, r := range c.rows() {
		if r[1] != "" {
			line("| %s | %s |", r[0], escapeCell(r[1]))
		}
	}
	line("\nPapers: %s.", c.Papers)
	if len(c.Deviations) > 0 {
		line("\nDifferent from the papers: %s.", strings.Join(c.Deviations, "; "))
	}
	line("\n## Contamination\n\n%s.", strings.TrimPrefix(c.Contamination.String(), "contamination: "))
	if c.Contamination != nil && len(c.Contamination.Worst) > 0 {
		line("\n| problem | similar to | of | share |\n|---|---|---|---|")
		for _, w := range c.Contamination.Worst {
			share := w.Share
			if share < 1 { // less than all is never rounded to 100 %
				share = min(share, 0.99)
			}
			line("| %s | %s | %s | %.2f |", escapeCell(w.Problem), escapeCell(w.Other), escapeCell(w.Source), share)
		}
	}
	line("\n## Prompt\n")
	if c.Prompt == "" {
		line("The prompt template is grpo's default for the suite. The first problem, as the model was given it:\n")
	} else {
		line("The template:\n\n%s\n\nThe first problem, as the model was given it:\n", fencedBlock(c.Prompt))
	}
	line("%s", fencedBlock(c.FirstPrompt))
	return b.String()
}

// escapeCell escapes a text for a cell of a table.
func escapeCell(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "|", `\|`), "\n", " ")
}

func named(c *Card) string {
	switch {
	case c.Run != "":
		return fmt.Sprintf("%s, step %d", c.Run, *c.Step)
	case c.Adapter != "":
		return c.Model + " with " + c.Adapter
	}
	return c.Model
}

func (c *Card) figures(line func(string, ...any)) {
	line("| | | 95 %% |\n|---|---|---|")
	if stats.Unjudged(c.Greedy, c.CI) {
		line("| pass@1, greedy | not judged | |")
	} else {
		line("| pass@1, greedy | %.3f | %.3f to %.3f |", c.Greedy, c.CI[0], c.CI[1])
	}
	for _, p := range c.PassAt {
		of := ""
		if p.Problems != c.Problems {
			of = fmt.Sprintf(" of %d problems", p.Problems)
		}
		line("| pass@%d, %d samples at temperature %v%s | %.3f | %.3f to %.3f |", p.K, c.Samples, c.Temperature, of, p.Value, p.CI[0], p.CI[1])
	}
	cut := fmt.Sprintf("%.3f", c.Truncated)
	if c.SampledTruncated != nil {
		cut += fmt.Sprintf(", of the samples %.3f", *c.SampledTruncated)
	}
	line("| cut off | %s | |", cut)
	if c.NotJudged > 0 {
		line("| not judged, as the machine failed | %d | |", c.NotJudged)
	}
	by := ""
	for _, g := range c.Groups {
		if g.By != by {
			by = g.By
			line("\n| %s | problems | pass@1, greedy | 95 %% | sampled |\n|---|---|---|---|---|", by)
		}
		sampled := ""
		if g.Sampled != nil {
			sampled = fmt.Sprintf("%.3f", *g.Sampled)
		}
		greedy := "not judged | "
		if !stats.Unjudged(g.Greedy, g.CI) {
			greedy = fmt.Sprintf("%.3f | %.3f to %.3f", g.Greedy, g.CI[0], g.CI[1])
		}
		line("| %s | %d | %s | %s |", g.Name, g.Problems, greedy, sampled)
	}
}

// rows are the settings.
func (c *Card) rows() [][2]string {
	step := ""
	if c.Step != nil {
		step = fmt.Sprint(*c.Step)
	}
	quoted := make([]string, len(c.Stop))
	for i, s := range c.Stop {
		quoted[i] = fmt.Sprintf("`%q`", s)
	}
	sandbox := c.Sandbox.String()
	for _, open := range c.Sandbox.NotProtected {
		sandbox += "; " + open
	}
	dates := ""
	if c.From != "" || c.To != "" {
		dates = c.From + " to " + c.To
	}
	return [][2]string{
		{"suite", c.Suite}, {"source", c.Source}, {"SHA-256 of the source", c.SHA256}, {"commit of the source", c.Commit},
		{"days", dates}, {"difficulty", c.Difficulty}, {"problems", fmt.Sprint(c.Problems)}, {"refused", countOrBlank(c.Refused)},
		{"left out, too long", countOrBlank(c.NoRoom)}, {"less room than max_tokens", countOrBlank(c.LessRoom)},
		{"model", c.Model}, {"SHA-256 of the model", c.ModelSHA256}, {"commit of the model", c.ModelCommit}, {"run", c.Run}, {"step", step},
		{"adapter", c.Adapter}, {"SHA-256 of the adapter", c.AdapterSHA},
		{"style", c.Style}, {"examples in the prompt", fmt.Sprint(c.Shots)}, {"renderer", c.Renderer}, {"stop", strings.Join(quoted, ", ")},
		{"samples", fmt.Sprint(c.Samples)}, {"k", fmt.Sprint(c.K)}, {"temperature", fmt.Sprint(c.Temperature)}, {"top_p", fmt.Sprint(c.TopP)},
		{"top_k", countOrBlank(c.TopK)}, {"min_p", orBlank(c.MinP)}, {"tokens at most", fmt.Sprint(c.MaxTokens)}, {"seed", fmt.Sprint(c.Seed)},
		{"sandbox", sandbox}, {"processor time of a test", fmt.Sprintf("%v s, unless the problem sets its own", c.TimeLimit)},
		{"memory of a test", fmt.Sprintf("%d MiB, unless the problem sets its own", c.MemoryLimit)},
		{"precision", c.Precision}, {"order of sums", c.Order}, {"computed by", c.Backend}, {"grpo", c.Program},
	}
}

func countOrBlank(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func orBlank(x float64) string {
	if x == 0 {
		return ""
	}
	return fmt.Sprint(x)
}

// fencedBlock is a fenced block, with a fence that does not occur in the text.
func fencedBlock(text string) string {
	longest := 2
	for run := range strings.FieldsFuncSeq(text, func(r rune) bool { return r != '`' }) {
		longest = max(longest, len(run))
	}
	fence := string(slices.Repeat([]byte{'`'}, longest+1))
	return fence + "\n" + strings.TrimRight(text, "\n") + "\n" + fence
}
