package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/seed-7879b91d/grpo/internal/compare"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/plural"
)

// ErrDiverged is the error of a run whose settings broke its policy. Trying again would give the same result.
var ErrDiverged = errors.New("the policy is lost")

// Runner makes a run in a directory, or resumes it, with these words. It stops in order when ctx ends.
type Runner func(ctx context.Context, e Entry, words []string) error

// Driver makes the runs of a journal.
type Driver struct {
	Journal *Journal
	AtOnce  int
	Run     Runner
	Say     func(format string, args ...any)

	mu sync.Mutex // guards the journal
}

// Drive makes all runs, rung by rung if there are rungs. If a run fails, the others continue. A race goes on without a run that broke
// its policy; if a run failed otherwise it waits at the rung, as a failure of the machine must not decide a race. After an
// interruption by ctx, Drive can be called again.
func (d *Driver) Drive(ctx context.Context) error {
	rungs := d.Journal.Plan.Rungs
	if len(rungs) == 0 {
		rungs = []int{-1}
	}
	for i, steps := range rungs {
		if err := d.rung(ctx, i, steps, i == len(rungs)-1); err != nil {
			return err
		}
		if i == len(rungs)-1 {
			break
		}
		if _, again := d.Journal.Failures(); again > 0 {
			return fmt.Errorf("%d of %s failed before step %d, and the race waits for %s; the logs are in %s; %s, or %s", again,
				plural.Of(len(d.Journal.Runs), "run"), steps, plural.Pick(again, "it", "them"), d.Journal.LogsDir(), d.Journal.RetryHint(again),
				d.Journal.ContinueHint())
		}
		if err := d.halve(i); err != nil {
			return err
		}
	}
	return nil
}

// rung brings all runs in the race to that many steps; below 0: to their own.
func (d *Driver) rung(ctx context.Context, rung, steps int, last bool) error {
	var wait sync.WaitGroup
	next, errs := make(chan int), make([]error, d.AtOnce)
	for w := range d.AtOnce {
		wait.Go(func() {
			for i := range next {
				if errs[w] == nil {
					errs[w] = d.one(ctx, i, rung, steps, last)
				}
			}
		})
	}
	for i := range d.Journal.Runs {
		d.mu.Lock()
		e := d.Journal.Runs[i]
		d.mu.Unlock()
		if e.State == Waiting && len(e.Scores) <= rung && ctx.Err() == nil {
			select {
			case next <- i:
			case <-ctx.Done():
			}
		}
	}
	close(next)
	wait.Wait()
	return cmp.Or(errors.Join(errs...), ctx.Err())
}

// one makes a run, and records the result.
func (d *Driver) one(ctx context.Context, i, rung, steps int, last bool) error {
	e, err := d.change(i, func(e *Entry) { e.State = Running })
	if err != nil {
		return err
	}
	words := slices.Clone(e.Words)
	if steps >= 0 {
		words = append(slices.DeleteFunc(words, func(w string) bool { return strings.HasPrefix(w, "max_steps=") }),
			"max_steps="+strconv.Itoa(steps))
	}
	err = d.Run(ctx, e, words)
	var r *compare.Run
	if err == nil {
		r, err = compare.Read(d.Journal.RunDir(e.Name))
	}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		_, werr := d.change(i, func(e *Entry) { e.State = Waiting })
		return errors.Join(ctx.Err(), werr)
	default:
		d.Say("%s failed: %v", e.Name, err)
		_, werr := d.change(i, func(e *Entry) { e.State, e.Why, e.Again = Failed, err.Error(), !errors.Is(err, ErrDiverged) })
		return werr
	}
	score, said := -1.0, "not evaluated"
	if at := r.At(-1); at != nil && at.Greedy == at.Greedy {
		score, said = at.Greedy, fmt.Sprintf("held-out pass@1 %.3f", at.Greedy)
	}
	d.Say("%s is at step %d: %s", e.Name, r.Done(), said)
	_, err = d.change(i, func(e *Entry) {
		e.Scores = append(e.Scores[:rung:rung], score)
		if e.State = Waiting; last {
			e.State = Done
		}
	})
	return err
}

// change changes an entry of the journal, and writes the journal.
func (d *Driver) change(i int, how func(e *Entry)) (Entry, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := &d.Journal.Runs[i]
	how(e)
	return *e, d.Journal.write()
}

// halve eliminates the worse half of the runs that have reached a rung. Of equal ones the first stays.
func (d *Driver) halve(rung int) error {
	var race []int
	for i, e := range d.Journal.Runs {
		if e.State == Waiting && len(e.Scores) == rung+1 {
			race = append(race, i)
		}
	}
	before := slices.ContainsFunc(d.Journal.Runs, func(e Entry) bool { return e.State == Eliminated && len(e.Scores) == rung+1 })
	if before || len(race) < 2 {
		return nil
	}
	slices.SortStableFunc(race, func(a, b int) int {
		return cmp.Compare(d.Journal.Runs[b].Scores[rung], d.Journal.Runs[a].Scores[rung])
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, i := range race[(len(race)+1)/2:] {
		d.Journal.Runs[i].State = Eliminated
		d.Say("%s is dropped after step %d", d.Journal.Runs[i].Name, d.Journal.Plan.Rungs[rung])
	}
	return d.Journal.write()
}

// Failures are the number of failed runs, and how many of these are worth another try.
func (j *Journal) Failures() (failed, again int) {
	for _, e := range j.Runs {
		if e.State == Failed {
			failed++
			if e.Again {
				again++
			}
		}
	}
	return failed, again
}

// RetryHint is what to type to try n failed runs again.
func (j *Journal) RetryHint(n int) string {
	return fmt.Sprintf("type grpo sweep --dir %s to try %s again", display.ShellQuote(j.dir), plural.Pick(n, "it", fmt.Sprintf("these %d", n)))
}

// Rungs are n step counts, each twice the one before, up to all steps.
func Rungs(steps, n int) (rungs []int) {
	for i := n - 1; i >= 0; i-- {
		at := max(1, (steps+1<<i-1)>>i)
		if len(rungs) == 0 || at > rungs[len(rungs)-1] {
			rungs = append(rungs, at)
		}
	}
	return rungs
}

// Results compares the runs with results; nil if there are none. The table lists every run of the plan in order, and has nothing
// that depends on the clock or on interruptions.
func (j *Journal) Results() (*compare.Comparison, *compare.Table, error) {
	var runs []*compare.Run
	at := map[string]int{}
	for _, e := range j.Runs {
		if e.State != Done && (e.State != Eliminated || j.gone(e.Name)) { // an eliminated run may have been removed
			continue
		}
		r, err := compare.Read(j.RunDir(e.Name))
		if err != nil {
			return nil, nil, err
		}
		r.Name = e.Name
		at[e.Name], runs = len(runs), append(runs, r)
	}
	if len(runs) == 0 {
		return nil, nil, nil
	}
	c, err := compare.New(runs, 0, -1)
	if err != nil {
		return nil, nil, err
	}
	if note := j.outNote(); note != "" {
		c.Notes = append(c.Notes, note)
	}
	t := c.Table(false)
	out := &compare.Table{Header: append([]string{"run", "state"}, t.Header[1:]...)}
	for _, e := range j.Runs {
		row := make([]any, len(out.Header))
		row[0], row[1] = e.Name, e.State
		if i, ok := at[e.Name]; ok {
			copy(row[2:], t.Rows[i][1:])
		}
		out.Rows = append(out.Rows, row)
	}
	return c, out, nil
}

// ResultsPath and PagePath are the files with the results.
func (j *Journal) ResultsPath() string { return filepath.Join(j.dir, ResultsFile) }

// PagePath is the page of the comparison.
func (j *Journal) PagePath() string { return filepath.Join(j.dir, PageFile) }
