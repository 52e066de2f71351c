package grpo

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/readers"
	"github.com/seed-7879b91d/grpo/internal/rundir"
	"github.com/seed-7879b91d/grpo/internal/snapshot"
	"github.com/seed-7879b91d/grpo/internal/stats"
	"github.com/seed-7879b91d/grpo/optim"
)

// The parts of a checkpoint.
const (
	momentsFile = "optimizer.safetensors"
	aheadFile   = "ahead.json" // only with pipeline=full
)

// Save writes a checkpoint of the last step into the run directory, and returns its path.
func (t *Trainer) Save(ctx context.Context) (dir string, err error) {
	if t.record == nil {
		return "", fmt.Errorf("grpo: Save: this trainer is unrecorded and has no run directory")
	}
	if err := t.begin(ctx); err != nil {
		return "", err
	}
	return t.record.Checkpoint(t.step), t.save()
}

// save writes a checkpoint of the last step, unless it exists or the run is unrecorded. It appears whole or not at all.
func (t *Trainer) save() error {
	if t.record == nil || t.broken != nil { // broken: the weights belong to no recorded step
		return nil
	}
	dir := t.record.Checkpoint(t.step)
	s, err := snapshot.Parse(dir)
	switch {
	case err == nil && s.Evaluated == t.evaluated && s.Pilot.FirstUndecided() == t.pilot.FirstUndecided():
		return t.retain() // a process that was killed may have saved and not cleaned up
	case err == nil: // saved before the step's evaluation was complete: only the state differs, not the weights
		err = t.writeState(dir, s.Checksum)
	default:
		err = t.record.Save(t.step, func(unfinished string) error {
			return errors.Join(t.logCheckpoint(dir), t.writeCheckpoint(unfinished))
		})
	}
	if err != nil {
		return t.record.WithResumeHint(fmt.Errorf("checkpoint %s: %w", dir, err), "")
	}
	t.watcher.Saved(dir)
	t.report((*readers.Page).Update)
	return t.retain()
}

// Stopped says, for the user, where an interrupted run was saved, and reports whether it has a checkpoint at all.
func (t *Trainer) Stopped() (said string, saved bool) {
	all, err := rundir.List(t.RunDir())
	return rundir.InterruptedMessage(t.RunDir(), t.step), err == nil && len(all) > 0
}

func (t *Trainer) writeCheckpoint(dir string) error {
	t.turn.Lock()
	defer t.turn.Unlock()
	if err := t.policy.Save(filepath.Join(dir, provenance.TrainedDir(t.policy.full)), t.policy.Base); err != nil {
		return err
	}
	if err := t.learner.Adam.SaveState(filepath.Join(dir, momentsFile)); err != nil {
		return err
	}
	if err := t.saveAhead(filepath.Join(dir, aheadFile)); err != nil {
		return err
	}
	sums, err := rundir.Checksums(dir)
	if err != nil {
		return err
	}
	return t.writeState(dir, sums)
}

// writeState writes the state of the last step, which seals the other files of the checkpoint by their checksums.
func (t *Trainer) writeState(dir string, sums map[string]string) (err error) {
	s := snapshot.State{Version: snapshot.Version, Step: t.step, Start: t.start, Evaluated: t.evaluated, Seed: t.cfg.Seed,
		Cursor: t.pool.Cursor(), Advisor: t.advisor, Checksum: sums, Parts: t.parts, Order: t.cfg.Order, Pilot: t.pilot}
	if s.Logs, err = t.record.Lengths(); err != nil {
		return err
	}
	return rundir.WriteState(dir, s)
}

// logCheckpoint adds a line to checkpoints.jsonl before the checkpoint appears. If the process dies in between, the run
// resumes from an earlier checkpoint, which knows the shorter length of the log and drops the line.
func (t *Trainer) logCheckpoint(dir string) error {
	return t.record.Append(rundir.CheckpointLog, map[string]any{
		"name": filepath.Base(dir), "step": t.step, "batch": t.step, "epoch": t.pool.Epoch(),
		"state_path": dir, "sampler_path": filepath.Join(dir, provenance.TrainedDir(t.policy.full))})
}

// retain removes old checkpoints. It keeps the last keep_last, those of the keep_best evaluations on each held-out set
// that the run has had, and the one that the autopilot may roll back to.
func (t *Trainer) retain() error {
	if t.cfg.KeepLast < 1 {
		return nil
	}
	all, err := t.record.evaluations()
	if err != nil {
		return err
	}
	return t.record.Retain(t.cfg.KeepLast, t.cfg.KeepBest, stats.BySet(all, (*Evaluation).outcome), t.pilot.Anchors()...)
}

// restore loads trained weights and optimizer moments from a checkpoint.
func restore(checkpoint string, p *policy, adam *optim.Adam) error {
	if err := p.Restore(filepath.Join(checkpoint, provenance.TrainedDir(p.full))); err != nil {
		return err
	}
	return adam.LoadState(filepath.Join(checkpoint, momentsFile))
}
