// Package export is the verb that writes the record of a run as tables for other programs. It knows the files of a run
// directory, and of their lines only which table each belongs to.
package export

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/destination"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/rollouts"
)

const metrics = "metrics.jsonl"

var (
	formats = []string{"csv", "jsonl"}
	tables  = []string{"steps", "evaluations", "rollouts"}
)

// Command is the verb.
func Command() *cobra.Command {
	var table, out string
	cmd := &cobra.Command{
		Use:   "export csv|jsonl RUN [--table steps|evaluations|rollouts] [--out FILE]",
		Short: "Write the record of a run as a table for spreadsheets and other programs",
		Long: `Writes one of three tables of the run in the directory RUN, which may be going on:
  steps        a row for each step, of metrics.jsonl
  evaluations  a row for each evaluation, of metrics.jsonl
  rollouts     a row for each completion that was recorded (see record_rollouts), compressed or not

Columns have the names of the JSON keys; what is inside of another has both, verdicts.AC. Lists of numbers have
a column for each, pass@1_greedy_ci.0 and .1; tokens and log-probabilities stay lists in one cell. docs/runs.md says what
each key means.

csv is RFC 4180 in UTF-8; a key that a row lacks, or has as null, is an empty cell. Completions are written by a model:
let a spreadsheet import the column text as text, not as formulas. jsonl is a flat object for each row.`,
		Example: `  grpo export csv runs/first --out steps.csv
  grpo export csv runs/first --table evaluations
  grpo export jsonl runs/first --table rollouts | grep '"problem":"two-sum"'`,
		Args: checkArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(tables, table) {
				return badinput.Errorf("--table: found %q, expected steps, evaluations or rollouts", table)
			}
			s := source{dir: filepath.Clean(args[1]), table: table}
			if err := s.check(args[0], out); err != nil {
				return err
			}
			return s.export(args[0], out, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&table, "table", "steps", "`table`: steps, evaluations or rollouts")
	cmd.Flags().StringVar(&out, "out", "", "`file` to write, outside of the run; it is replaced. Default: standard output")
	return cmd
}

func checkArgs(_ *cobra.Command, args []string) error {
	isFormat := func(i int) bool { return i < len(args) && slices.Contains(formats, args[i]) }
	switch {
	case len(args) == 2 && isFormat(0):
		return nil
	case len(args) == 2 && isFormat(1):
		return badinput.Errorf("the format comes first; type grpo export %s %s", args[1], args[0])
	case len(args) == 1 && isFormat(0):
		return badinput.Errorf("expected the directory of a run; type grpo export %s RUN", args[0])
	case len(args) == 1:
		return badinput.Errorf("expected a format, csv or jsonl; type grpo export csv %s", args[0])
	case len(args) == 2:
		return badinput.Errorf("found %q, expected csv or jsonl; type grpo export csv %s", args[0], args[1])
	}
	return badinput.Errorf("expected a format and the directory of one run; type grpo export csv RUN")
}

// source is where rows come from.
type source struct{ dir, table string }

// check sees that there is a run, and that nothing of it would be overwritten.
func (s source) check(format, out string) error {
	if _, err := os.Stat(filepath.Join(s.dir, "state.json")); err == nil {
		return badinput.Errorf("%s is a checkpoint; type the directory of its run, %s", s.dir, filepath.Join(s.dir, "..", ".."))
	}
	if _, err := os.Stat(filepath.Join(s.dir, metrics)); err != nil {
		return badinput.Errorf("%s: found no %s there; expected the directory of a run, as its run_dir names it", s.dir, metrics)
	}
	return destination.Place{Flag: "--out", Path: out, Name: s.table + "." + format, Run: s.dir}.Check()
}

// export reads twice: for the columns, and then as many rows as there were.
func (s source) export(format, out string, stdout io.Writer) error {
	var all columns
	rows := 0
	if err := s.each(-1, func(row []cell) error {
		all.add(row)
		rows++
		return nil
	}); err != nil {
		return err
	}
	if rows == 0 {
		return badinput.Errorf("%s has no %s on record%s", s.dir, s.table, s.why())
	}
	write := func(w io.Writer) error {
		buffered := bufio.NewWriterSize(w, 1<<16)
		var to writer = jsonRows{buffered}
		if format == "csv" {
			to = &csvRows{Writer: buffered}
		}
		to.begin(all.names)
		err := s.each(rows, to.row)
		return errors.Join(err, buffered.Flush())
	}
	if out == "" {
		return write(stdout)
	}
	if err := atomicfile.Write(out, write); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	fmt.Fprintf(stdout, "%s: %d rows, %d columns\n", out, rows, len(all.names))
	return nil
}

// why there may be no rows.
func (s source) why() string {
	switch s.table {
	case "evaluations":
		return " yet; eval_every and test_data say when there are some"
	case "rollouts":
		return "; record_rollouts says which are kept"
	}
	return " yet"
}

// errEnough ends reading before the end of a file.
var errEnough = errors.New("enough")

// each calls fn with the first so many rows, with all of them where most is −1. A last line that is being written is
// none.
func (s source) each(most int, fn func(row []cell) error) error {
	line := func(line []byte) error {
		if most == 0 {
			return errEnough
		}
		row, err := s.row(line)
		if err != nil || row == nil {
			return err
		}
		most--
		return fn(row)
	}
	var err error
	if s.table == "rollouts" {
		err = rollouts.Each(s.dir, line)
	} else {
		err = jsonl.Whole(filepath.Join(s.dir, metrics), line)
	}
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// row is what a line has for the table, nil where it is another's.
func (s source) row(line []byte) ([]cell, error) {
	if s.table == "rollouts" {
		return flatten(line, false)
	}
	var is struct{ Kind string }
	if err := json.Unmarshal(line, &is); err != nil {
		return nil, err
	}
	if kind := map[string]string{"steps": "", "evaluations": "evaluation"}[s.table]; is.Kind != kind {
		return nil, nil
	}
	row, err := flatten(line, true)
	return slices.DeleteFunc(row, func(c cell) bool { return strings.EqualFold(c.name, "kind") }), err
}
