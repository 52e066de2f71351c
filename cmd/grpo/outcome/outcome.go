// Package outcome is the result of an evaluation, as a table for people and as JSON for programs.
package outcome

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/seed-7879b91d/grpo/internal/plural"
	"github.com/seed-7879b91d/grpo/internal/stats"
)

// Report is the complete result.
type Report struct {
	Model      string        `json:"model"`
	Adapter    string        `json:"adapter,omitempty"`
	Checkpoint string        `json:"checkpoint,omitempty"` // of a run
	Data       string        `json:"data"`
	Split      string        `json:"split,omitempty"`
	Problems   int           `json:"problems"`
	Seed       uint64        `json:"seed"`
	MaxTokens  int           `json:"max_tokens"`
	NoRoom     int           `json:"left_out_too_long,omitempty"` // problems whose prompts leave no room in the model's positions
	LessRoom   int           `json:"less_room,omitempty"`         // other problems that leave less room than max_tokens
	Backend    string        `json:"backend"`
	Greedy     Greedy        `json:"greedy"`
	Sampled    *Sampled      `json:"sampled,omitempty"`
	Change     *stats.Change `json:"change,omitempty"` // of greedy pass@1, since the run's first evaluation
}

// Greedy is about the greedy completions.
type Greedy struct {
	PassAt1 float64    `json:"pass@1"`
	CI      [2]float64 `json:"pass@1_ci"`
	Attempts
}

// Sampled is about the completions at the temperature.
type Sampled struct {
	Samples     int     `json:"samples"`
	Temperature float64 `json:"temperature"`
	stats.Sampled
	Attempts
}

// Print prints the report as a table.
func (r *Report) Print(w io.Writer) error {
	what := r.Model
	if with := r.Adapter + r.Checkpoint; with != "" { // only one of them is set
		what += " with " + with
	}
	source := r.Data
	if r.Split != "" {
		source += " (" + r.Split + ")"
	}
	fmt.Fprintf(w, "%s on %s of %s, seed %d; %s\n\n", what, plural.Of(r.Problems, "problem"), source, r.Seed, r.Backend)
	header, rows := []string{"", "greedy"}, [][]string{{"pass@1", stats.ShareText(r.Greedy.PassAt1, r.Greedy.CI)}}
	rows = append(rows, r.Greedy.rows()...)
	if s := r.Sampled; s != nil {
		header = append(header, fmt.Sprintf("%s at temperature %v", plural.Of(s.Samples, "sample"), s.Temperature))
		rows[0] = append(rows[0], fmt.Sprintf("%.3f", s.PassAt1))
		for i, row := range s.rows() {
			rows[i+1] = append(rows[i+1], row[1])
		}
		more := [][]string{{fmt.Sprintf("pass@%d", s.K), "", s.AtK(r.Problems)}, {fmt.Sprintf("best reward of %d", s.K), "", s.Best(r.Problems)}}
		if s.K == 1 { // it is printed above
			more = more[1:]
		}
		rows = slices.Insert(rows, 1, more...)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{header}, rows...) {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if r.Change != nil {
		_, err := fmt.Fprintf(w, "\nchange of greedy pass@1: %s\n", r.Change)
		return err
	}
	if r.Problems >= stats.MinProblems {
		return nil
	}
	_, err := fmt.Fprintf(w, "\n%s\n", stats.TooFewNote(r.Problems))
	return err
}
