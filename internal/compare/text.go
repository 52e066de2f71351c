package compare

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/report"
)

// of the terminal
const columns = 80

// Text is the comparison for a terminal of 80 columns.
func (c *Comparison) Text() string {
	var b strings.Builder
	label := c.labels()
	for i, r := range c.Runs {
		if label[r] != r.Name {
			b.WriteString(label[r] + "  " + cut(r.Name, columns-6) + "\n")
		}
		if label[r] != r.Name && i == len(c.Runs)-1 {
			b.WriteByte('\n')
		}
	}
	for _, note := range c.Notes {
		b.WriteString(wrap("! ", note))
	}
	if len(c.Notes) > 0 {
		b.WriteByte('\n')
	}
	c.settingsText(&b, label)
	c.rowsText(&b, label)
	if anyTraining(c.Runs) {
		t := grid{head: []string{"held-out", "step", "greedy", "against " + label[c.Base], "sampled", "pass@k"}}
		for _, r := range c.Runs {
			t.add(append([]string{label[r]}, c.scoreWords(r)...))
		}
		t.print(&b)
		b.WriteByte('\n')
	}
	t := grid{head: []string{"training", "steps", "reward", "KL", "entropy", "length", "tokens", "time"}}
	for _, r := range c.Runs {
		t.add([]string{label[r], r.progress(), display.Reward(r.LateMean(reward)),
			rounded(r.LateMean(kl)), rounded(r.LateMean(entropy)), rounded(r.LateMean(length)),
			rounded(r.Total(tokens)), duration(r.Total(seconds))})
	}
	t.print(&b)
	c.problemText(&b, label)
	b.WriteString("\n" + wrap("", "greedy: pass@1 of the most likely completion with its interval of 95 %; against: the change, problem by "+
		"problem, with its interval of 95 % from resampling the problems; reward to length: the mean of the last tenth of the steps"))
	return display.Visible(b.String())
}

// settingsText prints the settings that differ; if they do not fit side by side, as a block of rows for each run.
func (c *Comparison) settingsText(b *strings.Builder, label map[*Run]string) {
	if len(c.Settings) == 0 {
		b.WriteString("the settings are the same\n\n")
		return
	}
	for from := 0; from < len(c.Settings); {
		t, to, width := grid{head: []string{"settings"}}, from, nameWidth(label)
		for to < len(c.Settings) {
			w := utf8.RuneCountInString(c.Settings[to].Key)
			for _, v := range c.Settings[to].Values {
				w = max(w, min(utf8.RuneCountInString(v), mostCell))
			}
			if to > from && width+2+w > columns {
				break
			}
			width, to = width+2+w, to+1
		}
		for _, s := range c.Settings[from:to] {
			t.head = append(t.head, s.Key)
		}
		for i, r := range c.Runs {
			row := []string{label[r]}
			for _, s := range c.Settings[from:to] {
				row = append(row, cut(s.Values[i], mostCell))
			}
			t.add(row)
		}
		t.print(b)
		b.WriteByte('\n')
		from = to
	}
}

// mostCell is how wide a setting may be; --format has all of it.
const mostCell = 36

func nameWidth(label map[*Run]string) int {
	width := len("settings")
	for _, name := range label {
		width = max(width, utf8.RuneCountInString(name))
	}
	return width
}

// mostLabel is how wide a run's name may be in a line of many columns.
const mostLabel = 12

// labels are the names of the runs, or numbers if a name is too long.
func (c *Comparison) labels() map[*Run]string {
	names, numbers, short := map[*Run]string{}, map[*Run]string{}, true
	for i, r := range c.Runs {
		names[r], numbers[r] = r.Name, fmt.Sprintf("#%d", i+1)
		short = short && utf8.RuneCountInString(r.Name) <= mostLabel
	}
	if short {
		return names
	}
	return numbers
}

// scoreWords are the cells about held-out problems.
func (c *Comparison) scoreWords(r *Run) []string {
	e := r.At(c.Step)
	if e == nil {
		return []string{"–", "–", "–", "–", "–"}
	}
	greedy := rate(e.Greedy)
	if e.CI[0] == e.CI[0] {
		greedy += fmt.Sprintf(" [%.2f, %.2f]", e.CI[0], e.CI[1])
	}
	against := "–"
	for _, p := range c.Pairs {
		if p.Run == r && p.Greedy != nil {
			d := p.Greedy.Change
			against = fmt.Sprintf("%+.3f [%+.2f, %+.2f]", d.Mean, d.CI[0], d.CI[1])
		}
	}
	atK := "–"
	if e.K > 0 && e.PassAtK == e.PassAtK {
		atK = fmt.Sprintf("%.3f (k=%d)", e.PassAtK, e.K)
	}
	return []string{fmt.Sprint(e.Step), greedy, against, rate(e.PassAt1), atK}
}

// mostPairs is how many runs are compared problem by problem.
const mostPairs = 8

// problemText prints the changes with their intervals, and which problems changed.
func (c *Comparison) problemText(b *strings.Builder, label map[*Run]string) {
	base := label[c.Base]
	for i, p := range c.Pairs {
		if i == mostPairs {
			fmt.Fprintf(b, "\nand %d more runs beside %s; the page and --format json have all\n", len(c.Pairs)-i, base)
			return
		}
		if p.Greedy == nil && p.Sampled == nil {
			continue
		}
		fmt.Fprintf(b, "\n%s beside %s\n", label[p.Run], base)
		for _, kind := range []struct {
			name string
			side *Side
		}{{"greedy", p.Greedy}, {"sampled", p.Sampled}} {
			if s := kind.side; s != nil {
				b.WriteString(wrap("  ", kind.name+": "+s.words()))
				b.WriteString(listed("    solves what "+base+" does not: ", s.Won))
				b.WriteString(listed("    does not solve what "+base+" does: ", s.Lost))
			}
		}
	}
}

// words are a change with its interval.
func (s *Side) words() string {
	d := s.Change
	return fmt.Sprintf("%+.3f [%+.3f, %+.3f] over %s: %s", d.Mean, d.CI[0], d.CI[1], report.Count(d.Problems, "problem"), d.Verdict())
}

// listed names a few problems.
func listed(lead string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	const most = 6
	text := lead + fmt.Sprint(len(names)) + " (" + display.Visible(strings.Join(names[:min(most, len(names))], ", "))
	if len(names) > most {
		text += fmt.Sprintf(", and %d more", len(names)-most)
	}
	return wrap("    ", strings.TrimSpace(text)+")")
}

func (r *Run) progress() string {
	if r.last() < 0 {
		return fmt.Sprint(r.Done())
	}
	return fmt.Sprintf("%d/%d", r.Done(), r.last())
}

func rate(v float64) string    { return report.Rate(v) }
func rounded(v float64) string { return report.Number(v) }

func duration(v float64) string {
	if v != v {
		return "–"
	}
	return strings.ReplaceAll(report.Duration(v), "\u00a0", " ")
}
