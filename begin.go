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
		t.Watcher.Skipped(fmt.Sprintf("%v; an older one is used", d))
	}
	if newest != "" {
		if err := t.restore(newest, s); err != nil {
			return err
		}
	}
	// What was evaluated after the checkpoint of step 0 is done again, and so is its line.
	from := t.step
	if newest == "" {
		from = -1
	}
	t.record, err = OpenRecord(dir, from)
	return err
}
