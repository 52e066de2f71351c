package grpo

import "fmt"

// begin starts recording in dir, or goes on with what is there: from the newest checkpoint that is
// whole, with everything after it forgotten.
func (t *Trainer) begin(dir string) error {
	newest, s, damaged, err := newestCheckpoint(dir)
	if err != nil {
		return err
	}
	for _, d := range damaged {
		t.Watcher.Warn(fmt.Sprintf("%v; an older one is used", d))
	}
	from := -1 // a run that starts again evaluates again before its first step
	if newest != "" {
		if err := t.restore(newest, s); err != nil {
			return err
		}
		from = t.step
	}
	t.record, err = OpenRecord(dir, from)
	return err
}
