package export

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/destination"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/readers"
	"github.com/seed-7879b91d/grpo/internal/rollouts"
	"github.com/seed-7879b91d/grpo/internal/rows"
	"github.com/seed-7879b91d/grpo/internal/rows/parquet"
	"github.com/seed-7879b91d/grpo/internal/warmup"
)

// kinds are the types of columns, by the Go types of the record, so that a column has the same type in the tables of all
// runs.
func (s source) kinds() map[string]parquet.Kind {
	switch s.table {
	case "steps":
		return parquet.Kinds(true, reflect.TypeFor[warmup.Metrics](), reflect.TypeFor[grpo.Metrics]())
	case "evaluations":
		return parquet.Kinds(true, reflect.TypeFor[warmup.HeldOut](), reflect.TypeFor[grpo.Evaluation]())
	case "timing":
		return parquet.Kinds(true, reflect.TypeFor[grpo.Timing]())
	}
	return parquet.Kinds(false, reflect.TypeFor[rollouts.Line]())
}

// typedRows writes Parquet.
type typedRows struct{ to *parquet.Writer }

func (typedRows) begin([]string)              {}
func (w typedRows) row(row []rows.Cell) error { return w.to.Row(row) }
func (w typedRows) end() error                { return w.to.Close() }

// folder writes tables into a folder: the named one, or all with rows except rollouts.
func (s source) folder(one bool, out string, stdout io.Writer) error {
	if out == "" {
		return badinput.Errorf("parquet is nothing to print; type grpo export parquet %s --out DIR, or --out %s.parquet",
			display.ShellQuote(s.dir), s.table)
	}
	place := destination.Place{Flag: "--out", Path: out, IsDir: true, Run: s.dir}
	if err := place.Check(); err != nil {
		return err
	}
	names := tables[:3]
	if one {
		names = []string{s.table}
	}
	var all []*content
	for _, name := range names {
		t, err := source{s.dir, name}.read()
		switch {
		case err != nil:
			return err
		case t.rows > 0:
			all = append(all, t)
		case name == names[0]:
			return badinput.Errorf("%s has no %s on record%s", s.dir, name, t.explainEmpty())
		}
	}
	if err := s.checkLeft(one, out, all); err != nil {
		return err
	}
	_, missing := os.Stat(out)
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	err := writeTables(all, out, stdout)
	if err != nil && errors.Is(missing, fs.ErrNotExist) {
		_ = os.Remove(out) // fails if it is not empty
	}
	return place.Failed(err)
}

// checkLeft refuses a folder that has a table for which this run has no rows: it would be taken for this run's.
func (s source) checkLeft(one bool, out string, all []*content) error {
	for _, name := range tables[:3] {
		has := slices.ContainsFunc(all, func(t *content) bool { return t.table == name })
		if _, err := os.Lstat(filepath.Join(out, name+".parquet")); err == nil && !one && !has {
			return badinput.Errorf("--out %s: found %s.parquet there, but %s has no %s, so that file is of another run; "+
				"choose another folder, or remove that file", out, name, s.dir, name)
		}
	}
	return nil
}

// writeTables writes tables into the folder out. It completes all of them before it renames any, so that an error does not mix two runs
// there.
func writeTables(all []*content, out string, stdout io.Writer) error {
	unwritten := filepath.Join(out, "tables")
	beside, done, err := atomicfile.TempDir(unwritten)
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	defer done()
	for _, t := range all {
		if err := t.file("parquet", filepath.Join(beside, t.table+".parquet"), io.Discard); err != nil {
			return atomicfile.WithPath(unwritten, err)
		}
	}
	for _, t := range all {
		path := filepath.Join(out, t.table+".parquet")
		if err := os.Rename(filepath.Join(beside, t.table+".parquet"), atomicfile.ResolveLink(path)); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
		t.printWritten(path, stdout)
	}
	return nil
}

// write writes the run in the format of another program.
func (s source) write(form readers.Format, table bool, out string, stdout io.Writer) error {
	switch {
	case table:
		return badinput.Errorf("--table: %s has them all; leave it out", form.Name)
	case out == "":
		return badinput.Errorf("%s is a folder; type grpo export %s %s --out DIR", form.Name, form.Name, display.ShellQuote(s.dir))
	}
	place := destination.Place{Flag: "--out", Path: out, IsDir: true, Run: s.dir}
	if err := place.Check(); err != nil {
		return err
	}
	if err := form.Check(out); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	run, err := form.Write(s.dir, out)
	if err == nil {
		fmt.Fprintf(stdout, "%s: %s\n", out, form.ReadCommand(out, run))
	}
	return place.Failed(err)
}
