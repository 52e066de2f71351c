package sweep

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/plural"
)

// mostNamed is how many runs a message names.
const mostNamed = 16

// Exclude takes runs out of the sweep: they are not made, and no race waits for them. Naming one again is no error; one that is done
// cannot be taken out. Begin writes the change.
func (j *Journal) Exclude(typed []string) error {
	named, err := j.named("--without", typed)
	if err != nil {
		return err
	}
	for _, e := range named {
		if e.State == Done || e.State == Eliminated {
			return badinput.Errorf("--without: %s is %s: it has its result already; leave it out of --without", e.Name, e.State)
		}
		e.State, e.Again = Removed, false
	}
	if out := j.RemovedRuns(); len(out) == len(j.Runs) {
		return badinput.Errorf("--without: no run of the sweep would be left; name fewer, or begin another sweep in another --dir")
	}
	return nil
}

// Readmit takes runs back in, which then continue where they were. It fails if a race has eliminated others at a rung that they had
// not reached. Begin writes the change.
func (j *Journal) Readmit(typed []string) error {
	named, err := j.named("--with", typed)
	if err != nil {
		return err
	}
	for _, e := range named {
		if e.State != Removed {
			return badinput.Errorf("--with: %s was not taken out, it is %s; leave it out of --with", e.Name, e.State)
		}
		if i := slices.IndexFunc(j.Runs, func(o Entry) bool { return o.State == Eliminated && len(o.Scores) > len(e.Scores) }); i >= 0 {
			steps := j.Plan.Rungs[len(j.Runs[i].Scores)-1]
			return badinput.Errorf("--with: the race dropped others at step %d, which %s had not reached; begin another sweep in another --dir",
				steps, e.Name)
		}
	}
	for _, e := range named {
		e.State, e.Why = Waiting, ""
	}
	return nil
}

// named are the runs of a list of names with commas between them; a name may itself have commas.
func (j *Journal) named(flag string, typed []string) (all []*Entry, err error) {
	for _, text := range typed {
		for parts := strings.Split(text, ","); len(parts) > 0; {
			n, i := len(parts), -1
			for ; n > 0 && i < 0; n-- {
				name := strings.Join(parts[:n], ",")
				i = slices.IndexFunc(j.Runs, func(e Entry) bool { return e.Name == name })
			}
			if i < 0 {
				return nil, badinput.Errorf("%s: found %q, expected names of runs; these are %s", flag, strings.Join(parts, ","), j.names())
			}
			all, parts = append(all, &j.Runs[i]), parts[n+1:]
		}
	}
	return all, nil
}

// names are the names of the first runs.
func (j *Journal) names() string {
	var names []string
	for _, e := range j.Runs[:min(len(j.Runs), mostNamed)] {
		names = append(names, e.Name)
	}
	text := strings.Join(names, " ")
	if more := len(j.Runs) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more, the folders of %s", more, display.ShellQuote(j.dir+"/runs"))
	}
	return text
}

// RemovedRuns are the names of the runs that were taken out.
func (j *Journal) RemovedRuns() (names []string) {
	for _, e := range j.Runs {
		if e.State == Removed {
			names = append(names, e.Name)
		}
	}
	return names
}

// outNote says which runs were taken out; "" if none were.
func (j *Journal) outNote() string {
	out := j.RemovedRuns()
	if len(out) == 0 {
		return ""
	}
	text := strings.Join(out[:min(len(out), mostNamed)], ", ")
	if more := len(out) - mostNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("%s %s taken out of the sweep, and %s not compared", text, plural.Pick(len(out), "was", "were"),
		plural.Pick(len(out), "is", "are"))
}

// ContinueHint is what to type to continue without the failed runs that are not worth another try.
func (j *Journal) ContinueHint() string {
	var names []string
	for _, e := range j.Runs {
		if e.State == Failed && e.Again {
			names = append(names, e.Name)
		}
	}
	which, it := display.ShellQuote(strings.Join(names, ",")), plural.Pick(len(names), "it", "them")
	if len(names) > mostNamed {
		which = "NAME,NAME"
	}
	return fmt.Sprintf("with --without %s to continue without %s", which, it)
}
