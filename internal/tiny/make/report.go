package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/stats"
	"github.com/seed-7879b91d/grpo/internal/tiny"
)

// kinds are the tables of the report: all held-out problems, those of trained families, and the others.
var kinds = []string{"of any kind", "trained on", "never trained on"}

// ks are the k of pass@k; the first is the mean over the samples.
var ks = []int{1, 4, 16, 64}

// attempt is a line of `grpo eval --out`, as far as the report needs it.
type attempt struct {
	Problem     string  `json:"problem"`
	Temperature float64 `json:"temperature"`
	Verdict     string  `json:"verdict"`
}

// tally counts the attempts at one problem.
type tally struct{ greedy, right, samples int }

// report prints pass@k on the held-out problems for files that `grpo eval --out` wrote, separately for trained families
// and others.
func report(w io.Writer, files []string) error {
	if len(files) == 0 {
		return badinput.Errorf("-report: found no file; type -report FILE..., files that grpo eval --out FILE wrote")
	}
	var tallies []map[string]*tally
	for _, path := range files {
		t, err := count(path)
		if err != nil {
			return err
		}
		tallies = append(tallies, t)
	}
	train, heldOut, err := tiny.Problems()
	if err != nil {
		return err
	}
	trained := map[string]bool{}
	for _, p := range train {
		trained[string(p.Metadata)] = true
	}
	for _, kind := range kinds {
		var set []string
		for _, p := range heldOut {
			if kind == kinds[0] || trained[string(p.Metadata)] == (kind == kinds[1]) {
				set = append(set, p.ID)
			}
		}
		if err := printKind(w, kind, set, files, tallies); err != nil {
			return err
		}
	}
	return nil
}

// count tallies a file of completions by problem.
func count(path string) (map[string]*tally, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, badinput.Errorf("-report: %w; write it with grpo eval --out %s", err, path)
	}
	defer f.Close()
	tallies := map[string]*tally{}
	return tallies, jsonl.EachLoose(f, path, func(_ int, a attempt) error {
		t := tallies[a.Problem]
		if t == nil {
			t = &tally{}
			tallies[a.Problem] = t
		}
		right := 0
		if a.Verdict == "AC" {
			right = 1
		}
		if a.Temperature == 0 {
			t.greedy = right
		} else {
			t.right, t.samples = t.right+right, t.samples+1
		}
		return nil
	})
}

// printKind prints the table of one kind of problems: a line for each file.
func printKind(w io.Writer, kind string, set, files []string, tallies []map[string]*tally) error {
	fmt.Fprintf(w, "%d held-out problems, of families %s\n", len(set), kind)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\tgreedy\tsampled\t")
	for _, k := range ks[1:] {
		fmt.Fprintf(t, "pass@%d\t", k)
	}
	fmt.Fprintln(t)
	for i, path := range files {
		var greedy []float64
		sampled := make([][]float64, len(ks))
		for _, id := range set {
			c := tallies[i][id]
			if c == nil {
				return badinput.Errorf("%s: found no completion of %s; evaluate all problems: --problems 0", path, id)
			}
			greedy = append(greedy, float64(c.greedy))
			for at, k := range ks {
				sampled[at] = append(sampled[at], stats.PassAtK(c.samples, c.right, k))
			}
		}
		fmt.Fprintf(t, "%s\t%.3f\t", strings.TrimSuffix(filepath.Base(path), ".jsonl"), stats.Mean(greedy))
		for _, s := range sampled {
			fmt.Fprintf(t, "%.3f\t", stats.Mean(s))
		}
		fmt.Fprintln(t)
	}
	fmt.Fprintln(t)
	return t.Flush()
}
