// Package snapshot is what a checkpoint knows besides what is trained and the moments of the optimizer.
package snapshot

import (
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/advice"
	"github.com/seed-7879b91d/grpo/internal/autopilot"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/look"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/rundir"
)

// State is what a checkpoint knows besides the adapter and the moments. Draws depend on the seed and
// on where they are made, so there is no generator to save.
type State struct {
	Version int `json:"version"`
	Step    int `json:"step"`
	// Evaluated is the first step that has no evaluation yet.
	Evaluated int               `json:"evaluated"`
	Start     int               `json:"start"`
	Seed      uint64            `json:"seed"`
	Cursor    data.Cursor       `json:"cursor"`
	Advisor   advice.Advisor    `json:"adviser"`
	Logs      map[string]int64  `json:"logs"`   // how long the files of the record are
	Checksum  map[string]string `json:"sha256"` // of every other file
	Parts     provenance.Parts  `json:"parts,omitempty"`
	Order     string            `json:"order,omitempty"` // the setting
	Pilot     *autopilot.Pilot  `json:"autopilot,omitempty"`
	Seal      string            `json:"seal"`
}

// Version is that of new ones. Those of version 2 do not know what the run is made of.
const Version, oldest = 3, 2

// Read reads a checkpoint's state and verifies every file of it.
func Read(dir string) (State, error) {
	s, err := Parse(dir)
	if err == nil {
		if err = rundir.Verify(dir, s.Checksum); err != nil {
			err = badinput.Errorf("checkpoint %s: %w", dir, err)
		}
	}
	return s, err
}

// Parse reads a checkpoint's state alone.
func Parse(dir string) (s State, err error) {
	if err = rundir.ReadState(dir, &s, oldest, Version); err != nil {
		return s, badinput.Errorf("checkpoint %s: %w", dir, err)
	}
	s.Seal = ""
	return s, nil
}

// Newest finds the last checkpoint of a run that is whole, and that its logs fit where the run itself goes
// on; damaged tells of those that are not. There may be none.
func Newest(run string, goesOn bool) (dir string, s State, damaged []error, err error) {
	dir, damaged, err = rundir.Newest(run, func(dir string) (err error) {
		if s, err = Read(dir); err == nil && goesOn {
			err = s.Fits(dir, run)
		}
		return err
	})
	return dir, s, damaged, err
}

// Fits tells whether the logs of a run have what they had when its checkpoint was made.
func (s State) Fits(dir, run string) error {
	if err := rundir.Fits(run, rundir.Point{Logs: s.Logs}); err != nil {
		return badinput.Errorf("checkpoint %s: %w; type run_dir=DIR init_from=%s to go on from it in another directory", dir, err, look.Word(dir))
	}
	return nil
}
