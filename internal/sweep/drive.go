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
	"github.com/seed-7879b91d/grpo/internal/look"
	"github.com/seed-7879b91d/grpo/internal/plural"
)

// ErrLost is of a run whose own settings led it to where it computes no numbers any more. Tried again, it would come there again.
var ErrLost = errors.New("the policy is lost")

// Runner makes a run in a directory to its end, or goes on with it, with these words. It stops in order when ctx ends.
type Runner func(ctx context.Context, e Entry, words []string) error

// Driver does what a journal says.
type Driver struct {
	Journal *Journal
	AtOnce  int
	Run     Runner
	Say     func(format string, args ...any)

	mu sync.Mutex // of the journal
}

// Drive makes the runs, rung by rung where there are some. A run that fails is told, and the others go on. A race goes on without one
// that lost its policy, and waits at the rung for one that failed otherwise: a machine that fails decides no race. What ctx interrupts
// can be gone on with.
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
				plural.Of(len(d.Journal.Runs), "run"), steps, plural.Pick(again, "it", "them"), d.Journal.LogsDir(), d.Journal.TryAgain(again),
				d.Journal.GoOnWithout())
		}
		if err := d.halve(i); err != nil {
			return err
		}
	}
	return nil
}

// rung brings all runs that are in the race to a number of steps, below 0: to their own.
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

// one makes a run, and writes down what became of it.
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
		_, werr := d.change(i, func(e *Entry) { e.State, e.Why, e.Again = Failed, err.Error(), !errors.Is(err, ErrLost) })
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

// change changes a run of the journal, and writes that down.
func (d *Driver) change(i int, how func(e *Entry)) (Entry, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := &d.Journal.Runs[i]
	how(e)
	return *e, d.Journal.write()
}

// halve leaves the worse half of the runs behind that have reached a rung. Of two that are as good the first stays.
func (d *Driver) halve(rung int) error {
	var race []int
	for i, e := range d.Journal.Runs {
		if e.State == Waiting && len(e.Scores) == rung+1 {
			race = append(race, i)
		}
	}
	before := slices.ContainsFunc(d.Journal.Runs, func(e Entry) bool { return e.State == Left && len(e.Scores) == rung+1 })
	if before || len(race) < 2 {
		return nil
	}
	slices.SortStableFunc(race, func(a, b int) int {
		return cmp.Compare(d.Journal.Runs[b].Scores[rung], d.Journal.Runs[a].Scores[rung])
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, i := range race[(len(race)+1)/2:] {
		d.Journal.Runs[i].State = Left
		d.Say("%s is left behind after step %d", d.Journal.Runs[i].Name, d.Journal.Plan.Rungs[rung])
	}
	return d.Journal.write()
}

// Failures are how many runs failed, and how many of them may not when they are tried again.
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

// TryAgain says what to type to try so many runs again that failed.
func (j *Journal) TryAgain(n int) string {
	return fmt.Sprintf("type grpo sweep --dir %s to try %s again", look.Word(j.dir), plural.Pick(n, "it", fmt.Sprintf("these %d", n)))
}

// Rungs are n numbers of steps, each twice the one before, that end with all steps.
func Rungs(steps, n int) (rungs []int) {
	for i := n - 1; i >= 0; i-- {
		at := max(1, (steps+1<<i-1)>>i)
		if len(rungs) == 0 || at > rungs[len(rungs)-1] {
			rungs = append(rungs, at)
		}
	}
	return rungs
}

// Results compares the runs that have anything to show, and is nil where none has. The table names every run of the plan, in its
// order, and has nothing in it that hangs on clocks or on what became of processes.
func (j *Journal) Results() (*compare.Comparison, *compare.Table, error) {
	var runs []*compare.Run
	at := map[string]int{}
	for _, e := range j.Runs {
		if e.State != Done && (e.State != Left || j.gone(e.Name)) { // who left it behind may have removed it
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

// ResultsPath and PagePath are where the results of a sweep are.
func (j *Journal) ResultsPath() string { return filepath.Join(j.dir, ResultsFile) }

// PagePath is that of the comparison.
func (j *Journal) PagePath() string { return filepath.Join(j.dir, PageFile) }
