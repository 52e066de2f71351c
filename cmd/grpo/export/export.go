// Package export is the verb that writes the record of a run as tables for other programs. Of the lines in the record it
// only knows which table they belong to.
package export

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/destination"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/plural"
	"github.com/seed-7879b91d/grpo/internal/readers"
	"github.com/seed-7879b91d/grpo/internal/rollouts"
	"github.com/seed-7879b91d/grpo/internal/rows"
	"github.com/seed-7879b91d/grpo/internal/rows/parquet"
)

// The files of the tables, besides rollouts.
const (
	metricsFile  = "metrics.jsonl"
	trainLogFile = "train_log.jsonl"
)

var (
	formats = []string{"csv", "jsonl", "parquet", "tensorboard", "wandb", "mlflow"}
	tables  = []string{"steps", "evaluations", "timing", "rollouts"}
)

// Command is the verb.
func Command() *cobra.Command {
	var table, out string
	cmd := &cobra.Command{
		Use:   "export csv|jsonl|parquet|tensorboard|wandb|mlflow RUN [--table TABLE] [--out PLACE]",
		Short: "Export the logs of a run to spreadsheets, TensorBoard and other programs",
		Long: `Exports the run in the directory RUN, which may still be running. csv and jsonl write one of its tables:
  steps        a row for each step, of metrics.jsonl
  evaluations  a row for each evaluation, of metrics.jsonl
  timing       a row for each step, of train_log.jsonl
  rollouts     a row for each completion that was recorded (see record_rollouts), compressed or not

Columns have the names of the JSON keys, nested ones with a dot: verdicts.AC. A list of numbers has a column for
each, pass@1_greedy_ci.0 and .1; tokens and log-probabilities stay lists in one cell. docs/runs.md explains the keys.

csv is RFC 4180 in UTF-8; a missing key or null is an empty cell. A model wrote the completions: let a spreadsheet import
the column text as text, not as formulas. jsonl has a flat object for each row. parquet has the same columns with types, as
FILE.parquet, or as a folder with a file for each table.

tensorboard, wandb and mlflow write the whole run except its rollouts to the folder --out: an event file, an offline run for
wandb sync, a run in a file store. With tensorboard=true, mlflow=DIR, or WANDB_PROJECT set, a run writes the same during
training (docs/export.md).`,
		Example: `  grpo export csv runs/first --out steps.csv
  grpo export csv runs/first --table evaluations
  grpo export jsonl runs/first --table rollouts | grep '"problem":"two-sum"'
  grpo export parquet runs/first --out tables
  grpo export tensorboard runs/first --out logs/first
  grpo export mlflow runs/first --out mlruns`,
		Args: checkArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(tables, table) {
				return badinput.Errorf("--table: found %q, expected steps, evaluations, timing or rollouts", table)
			}
			s := source{dir: filepath.Clean(args[1]), table: table}
			if err := s.check(); err != nil {
				return err
			}
			if at := slices.IndexFunc(readers.Formats, func(f readers.Format) bool { return f.Name == args[0] }); at >= 0 {
				return s.write(readers.Formats[at], cmd.Flags().Changed("table"), out, cmd.OutOrStdout())
			}
			if args[0] == "parquet" && !strings.HasSuffix(out, ".parquet") {
				return s.folder(cmd.Flags().Changed("table"), out, cmd.OutOrStdout())
			}
			return s.export(args[0], out, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&table, "table", "steps", "`table` for csv, jsonl or one parquet file: steps, evaluations, timing or rollouts")
	cmd.Flags().StringVar(&out, "out", "",
		"`place` to write to, outside the run: a file, which is replaced, or a folder (default: standard output)")
	return cmd
}

func checkArgs(_ *cobra.Command, args []string) error {
	known := strings.Join(formats[:len(formats)-1], ", ") + " or " + formats[len(formats)-1]
	isFormat := func(i int) bool { return i < len(args) && slices.Contains(formats, args[i]) }
	switch {
	case len(args) == 2 && isFormat(0):
		return nil
	case len(args) == 2 && isFormat(1):
		return badinput.Errorf("the format comes first; type grpo export %s %s", args[1], display.ShellQuote(args[0]))
	case len(args) == 1 && isFormat(0):
		return badinput.Errorf("expected the directory of a run; type grpo export %s RUN", args[0])
	case len(args) == 1:
		return badinput.Errorf("expected a format, %s; type grpo export csv %s", known, display.ShellQuote(args[0]))
	case len(args) == 2:
		return badinput.Errorf("found %q, expected %s; type grpo export csv %s", args[0], known, display.ShellQuote(args[1]))
	}
	return badinput.Errorf("expected a format and the directory of one run; type grpo export csv RUN")
}

// source is a table of a run.
type source struct{ dir, table string }

// check checks that it is a run.
func (s source) check() error {
	if _, err := os.Stat(filepath.Join(s.dir, "state.json")); err == nil {
		return badinput.Errorf("%s is a checkpoint; type the directory of its run, %s", s.dir,
			filepath.Join(atomicfile.ResolveLink(s.dir), "..", ".."))
	}
	_, err := os.Stat(filepath.Join(s.dir, metricsFile))
	if errors.Is(err, fs.ErrPermission) {
		return badinput.Errorf("%s: you may not read it; get permission, or choose another run", s.dir)
	}
	if err != nil {
		return badinput.Errorf("%s: found no %s there; expected the directory of a run, as its run_dir names it", s.dir, metricsFile)
	}
	return nil
}

// export writes a table to a file, or to standard output.
func (s source) export(format, out string, stdout io.Writer) error {
	place := destination.Place{Flag: "--out", Path: out, Name: s.table + "." + format, Run: s.dir}
	if err := place.Check(); err != nil {
		return err
	}
	t, err := s.read()
	if err != nil {
		return err
	}
	if t.rows == 0 {
		return badinput.Errorf("%s has no %s on record%s", s.dir, s.table, s.explainEmpty())
	}
	if out == "" {
		return t.write(format, stdout)
	}
	return place.Failed(t.file(format, out, stdout))
}

// content is a table that was read once, to determine its columns.
type content struct {
	source
	columns parquet.Columns
	rows    int
}

func (s source) read() (*content, error) {
	t := &content{source: s, columns: parquet.Columns{Declared: s.kinds()}}
	return t, s.each(-1, func(row []rows.Cell) error {
		t.columns.Add(row)
		t.rows++
		return nil
	})
}

// write reads the same number of rows again, and writes them.
func (t *content) write(format string, out io.Writer) error {
	buffered := bufio.NewWriterSize(out, 1<<16)
	var to writer = jsonRows{buffered}
	switch format {
	case "csv":
		to = &csvRows{Writer: buffered}
	case "parquet":
		to = &typedRows{parquet.New(buffered, t.table, &t.columns)}
	}
	to.begin(t.columns.Names)
	var unwritten error // a write error, which is not an error of the record
	err := t.each(t.rows, func(row []rows.Cell) error {
		if slices.ContainsFunc(row, func(c rows.Cell) bool { return !t.columns.Has(c.Name) }) {
			return badinput.Errorf("%s was replaced while it was read; type the same command again", t.dir)
		}
		unwritten = to.row(row)
		return unwritten
	})
	if unwritten != nil {
		return unwritten
	}
	return errors.Join(err, to.end(), buffered.Flush())
}

func (t *content) file(format, out string, stdout io.Writer) error {
	if err := atomicfile.Result(out, func(w io.Writer) error { return t.write(format, w) }); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	t.printWritten(out, stdout)
	return nil
}

// printWritten prints what was written to path.
func (t *content) printWritten(path string, stdout io.Writer) {
	fmt.Fprintf(stdout, "%s: %s, %s\n", path, plural.Of(t.rows, "row"), plural.Of(len(t.columns.Names), "column"))
}

// explainEmpty explains why there may be no rows.
func (s source) explainEmpty() string {
	var run struct{ Method string }
	text, _ := os.ReadFile(filepath.Join(s.dir, "config.json")) // a run made by hand may not have it
	_ = json.Unmarshal(text, &run)
	warmup := run.Method == "sft" || run.Method == "dpo"
	switch {
	case s.table == "evaluations" && warmup:
		return " yet; eval_every, held_out and test_data say when there are some"
	case s.table == "evaluations":
		return " yet; eval_every and test_data say when there are some"
	case s.table == "rollouts" && warmup:
		return ": it is a warm-up, which samples nothing; it has steps, evaluations and timing"
	case s.table == "rollouts":
		return "; record_rollouts says which are kept"
	}
	return " yet"
}

// errStopReading stops reading a file early.
var errStopReading = errors.New("enough")

// each calls fn with the first most rows; with all if most is −1. A last line that is being written is left out.
func (s source) each(most int, fn func(row []rows.Cell) error) error {
	line := func(line []byte) error {
		if most == 0 {
			return errStopReading
		}
		row, err := s.row(line)
		if err != nil || row == nil {
			return err
		}
		most--
		return fn(row)
	}
	var err error
	switch s.table {
	case "rollouts":
		err = rollouts.Each(s.dir, line)
	case "timing":
		if err = jsonl.EachComplete(filepath.Join(s.dir, trainLogFile), line); errors.Is(err, fs.ErrNotExist) {
			err = nil // packages do not include it
		}
	default:
		err = jsonl.EachComplete(filepath.Join(s.dir, metricsFile), line)
	}
	if errors.Is(err, errStopReading) {
		return nil
	}
	return err
}

// row is the row of a line, nil if the line belongs to another table.
func (s source) row(line []byte) ([]rows.Cell, error) {
	if s.table == "rollouts" || s.table == "timing" {
		return rows.Flatten(line, s.table == "timing")
	}
	var is struct{ Kind string }
	if err := json.Unmarshal(line, &is); err != nil {
		return nil, err
	}
	if (is.Kind == "") != (s.table == "steps") { // a warm-up's evaluations have another kind
		return nil, nil
	}
	row, err := rows.Flatten(line, true)
	if s.table == "steps" {
		row = rows.Meaningful(row)
	}
	return slices.DeleteFunc(row, func(c rows.Cell) bool { return strings.EqualFold(c.Name, "kind") }), err
}
