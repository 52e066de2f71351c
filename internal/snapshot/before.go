package snapshot

import (
	"cmp"
	"fmt"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/rundir"
)

// LastBefore finds the last checkpoint before a step, or the one that the run was forked from; none at the beginning.
func LastBefore(run string, step int, origin string) (after int, dir string, err error) {
	all, err := rundir.List(run)
	if err != nil {
		return 0, "", err
	}
	if origin != "" {
		all = append(all, origin)
	}
	var bad error // of the last one
	for _, dir := range all {
		st, err := Read(dir)
		if err == nil && st.Step < step {
			return st.Step, dir, nil
		}
		bad = cmp.Or(err, fmt.Errorf("it is of step %d", st.Step))
	}
	if origin != "" {
		return 0, "", badinput.Errorf("run %s is a fork of %s, which cannot be read any more: %w", run, origin, bad)
	}
	return 0, "", nil
}
