// Package snapshot is the state in a checkpoint, besides the trained weights and the optimizer's moments.
package snapshot

import (
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/advice"
	"github.com/seed-7879b91d/grpo/internal/autopilot"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/rundir"
)

// State is the state in a checkpoint, besides the adapter and the moments. It has no random generator, as draws depend
// only on the seed and their place.
type State struct {
	Version int `json:"version"`
	Step    int `json:"step"`
	// Evaluated is the first step without an evaluation.
	Evaluated int               `json:"evaluated"`
	Start     int               `json:"start"`
	Seed      uint64            `json:"seed"`
	Cursor    data.Cursor       `json:"cursor"`
	Advisor   advice.Advisor    `json:"adviser"`
	Logs      map[string]int64  `json:"logs"`   // lengths of the logs
	Checksum  map[string]string `json:"sha256"` // of all other files
	Parts     provenance.Parts  `json:"parts,omitempty"`
	Order     string            `json:"order,omitempty"` // the setting
	Pilot     *autopilot.Pilot  `json:"autopilot,omitempty"`
	Seal      string            `json:"seal"`
}

// Version is the version of new states. Version 2 has no fingerprints of the run's inputs.
const Version, oldest = 3, 2

// Read reads a checkpoint's state and verifies all its files.
func Read(dir string) (State, error) {
	s, err := Parse(dir)
	if err == nil {
		if err = rundir.Verify(dir, s.Checksum); err != nil {
			err = badinput.Errorf("checkpoint %s: %w", dir, err)
		}
	}
	return s, err
}

// Parse reads only a checkpoint's state.
func Parse(dir string) (s State, err error) {
	if err = rundir.ReadState(dir, &s, oldest, Version); err != nil {
		return s, badinput.Errorf("checkpoint %s: %w", dir, err)
	}
	s.Seal = ""
	return s, nil
}

// Newest finds the last undamaged checkpoint of a run, if any; damaged are the errors of later ones. If goesOn is set,
// the run's logs must also be long enough for it.
func Newest(run string, goesOn bool) (dir string, s State, damaged []error, err error) {
	dir, damaged, err = rundir.Newest(run, func(dir string) (err error) {
		if s, err = Read(dir); err == nil && goesOn {
			err = s.CheckLogs(dir, run)
		}
		return err
	})
	return dir, s, damaged, err
}

// CheckLogs checks that the logs of a run are at least as long as when the checkpoint was made.
func (s State) CheckLogs(dir, run string) error {
	if err := rundir.CheckLogs(run, rundir.Point{Logs: s.Logs}); err != nil {
		return badinput.Errorf("checkpoint %s: %w; type run_dir=DIR init_from=%s to go on from it in another directory", dir, err,
			display.ShellQuote(dir))
	}
	return nil
}
