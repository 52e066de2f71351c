// Package compare has the verbs that compare runs: compare, and summarize over seeds.
package compare

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/compare"
	"github.com/seed-7879b91d/grpo/internal/destination"
	"github.com/seed-7879b91d/grpo/internal/plural"
)

// DefaultPage is the default file of the page.
const DefaultPage = "comparison.html"

// Command is the verb compare.
func Command() *cobra.Command {
	var format, page, base string
	var step int
	cmd := &cobra.Command{
		Use:   "compare RUN RUN… [--base RUN] [--step N] [--page FILE] [--format csv|markdown|json]",
		Short: "Compare runs: settings, curves, held-out scores with paired intervals",
		Long: `Compares runs with the first one, or with --base: the settings that differ, held-out scores, reward, KL, entropy, lengths, time
and tokens, and the problems that only one of them solves. Prints a table, and writes a self-contained page with the curves of
all runs in the same charts.

Scores are compared problem by problem, with a 95 % interval from resampling the problems with a fixed seed. This needs the same
held-out problems, by their SHA-256; otherwise the table says so, and the scores are not compared. It also says which runs are
unfinished, were resumed, or are of another model. Runs may still be running.`,
		Example: `  grpo compare runs/first runs/second
  grpo compare runs/sweep/runs/* --format markdown
  grpo compare runs/first runs/second --step 20 --page '' --format json`,
		Args: func(cmd *cobra.Command, args []string) error {
			dirs, _ := includeBase(base, args)
			if len(dirs) == 1 { // a sweep contains several runs
				if err := compare.Check(dirs[0]); err != nil {
					return err
				}
			}
			return atLeast("compare", 2)(cmd, dirs)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := compare.CheckFormat(format); err != nil {
				return err
			}
			dirs, at := includeBase(base, args)
			if err := checkPage(page, dirs); err != nil {
				return err
			}
			runs, err := compare.Open(dirs)
			if err != nil {
				return err
			}
			c, err := compare.New(runs, at, step)
			if err != nil {
				return err
			}
			return show(cmd, c, format, page)
		},
	}
	addFormat(cmd, &format)
	cmd.Flags().StringVar(&page, "page", DefaultPage, "`file` for the page; an earlier page of this command is replaced; '': no page")
	cmd.Flags().StringVar(&base, "base", "", "`directory` of the run to compare the others with; if not given: the first")
	cmd.Flags().IntVar(&step, "step", -1, "compare the evaluations after this step, not the last of each run")
	return cmd
}

func addFormat(cmd *cobra.Command, format *string) {
	cmd.Flags().StringVar(format, "format", "", "format: csv, `markdown` or json; if not given, a table for the terminal")
}

// atLeast requires that many runs.
func atLeast(verb string, n int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < n {
			return badinput.Errorf("found %d %s, expected %d or more; type grpo %s%s", len(args),
				plural.Pick(len(args), "directory of a run", "directories of runs"), n, verb, strings.Repeat(" RUN", n))
		}
		return nil
	}
}

// includeBase adds the base run to the runs if necessary, and returns its index.
func includeBase(base string, dirs []string) (all []string, at int) {
	if base == "" {
		return dirs, 0
	}
	for i, dir := range dirs {
		if filepath.Clean(dir) == filepath.Clean(base) {
			return dirs, i
		}
	}
	return append([]string{base}, dirs...), 0
}

// checkPage refuses to overwrite a file that is no comparison page, and to write into a run.
func checkPage(page string, runs []string) error {
	if page == "" {
		return nil
	}
	for _, run := range runs {
		if err := (destination.Place{Flag: "--page", Path: page, Name: DefaultPage, Run: run}).Check(); err != nil {
			return err
		}
	}
	text, err := os.ReadFile(page)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return badinput.Errorf("--page: %w", err)
	case !bytes.Contains(text[:min(len(text), 2000)], []byte(compare.PageMark)):
		return badinput.Errorf("--page %s: this file exists, and is not a page of grpo compare; type --page FILE for another one, "+
			"or --page '' for none", page)
	}
	return nil
}

// show prints the table and writes the page.
func show(cmd *cobra.Command, c *compare.Comparison, format, page string) error {
	text, err := []byte(c.Text()), error(nil)
	switch format {
	case "json":
		text, err = c.JSON()
	case "csv", "markdown":
		text, err = c.Table(true).Write(format)
		printNotes(cmd.ErrOrStderr(), c.Notes)
	}
	if err != nil {
		return err
	}
	if page != "" {
		if err := WritePage(page, c); err != nil {
			return err
		}
	}
	if _, err = cmd.OutOrStdout().Write(text); err != nil {
		return err
	}
	if page != "" {
		to := cmd.OutOrStdout()
		if format != "" {
			to = cmd.ErrOrStderr()
		}
		fmt.Fprintf(to, "\nthe curves are in %s\n", page)
	}
	return nil
}

// printNotes prints notes on standard error, as a table for programs has no place for them.
func printNotes(errs io.Writer, notes []string) {
	for _, note := range notes {
		fmt.Fprintf(errs, "! %s\n", note)
	}
}

// WritePage writes the page of a comparison.
func WritePage(path string, c *compare.Comparison) error {
	html, err := c.Page().HTML()
	if err == nil {
		err = atomicfile.ResultBytes(path, html)
	}
	if err != nil {
		return fmt.Errorf("--page: %w", err)
	}
	return nil
}
