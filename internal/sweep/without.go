package sweep

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/look"
	"github.com/seed-7879b91d/grpo/internal/plural"
)

// mostNamed is how many runs a message names.
const mostNamed = 16

// Without takes runs out of the sweep: they are made no more, and no race waits for them. What is typed are names with commas between
// them; a name may have commas itself. A run that is out stays out, and may be named again; one that has its result has nothing to be
// taken out of. Begin writes it down.
func (j *Journal) Without(typed []string) error {
	for _, text := range typed {
		for parts := strings.Split(text, ","); len(parts) > 0; {
			n, i := len(parts), -1
			for ; n > 0 && i < 0; n-- {
				name := strings.Join(parts[:n], ",")
				i = slices.IndexFunc(j.Runs, func(e Entry) bool { return e.Name == name })
			}
			if i < 0 {
				return badinput.Errorf("--without: found %q, expected names of runs; these are %s", strings.Join(parts, ","), j.names())
			}
			e := &j.Runs[i]
			if e.State == Done || e.State == Left {
				return badinput.Errorf("--without: %s is %s: it has its result, and nothing waits for it; leave it out of --without", e.Name, e.State)
			}
			e.State, e.Again, parts = Out, false, parts[n+1:]
		}
	}
	if out := j.Out(); len(out) == len(j.Runs) {
		return badinput.Errorf("--without: no run of the sweep would be left; name fewer, or begin another sweep in another --dir")
	}
	return nil
}

// names are those of the first runs.
func (j *Journal) names() string {
	var names []string
	for _, e := range j.Runs[:min(len(j.Runs), mostNamed)] {
		names = append(names, e.Name)
	}
	text := strings.Join(names, " ")
	if more := len(j.Runs) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more, the folders of %s", more, look.Word(j.dir+"/runs"))
	}
	return text
}

// Out are the names of the runs that were taken out.
func (j *Journal) Out() (names []string) {
	for _, e := range j.Runs {
		if e.State == Out {
			names = append(names, e.Name)
		}
	}
	return names
}

// outNote says which runs were taken out; "" where none was.
func (j *Journal) outNote() string {
	out := j.Out()
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

// GoOnWithout says what to type to go on without the runs that failed and may not when they are tried again.
func (j *Journal) GoOnWithout() string {
	var names []string
	for _, e := range j.Runs {
		if e.State == Failed && e.Again {
			names = append(names, e.Name)
		}
	}
	which, it := look.Word(strings.Join(names, ",")), plural.Pick(len(names), "it", "them")
	if len(names) > mostNamed {
		which = "NAME,NAME"
	}
	return fmt.Sprintf("with --without %s to go on without %s", which, it)
}
