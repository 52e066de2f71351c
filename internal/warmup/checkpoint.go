package warmup

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/readers"
	"github.com/seed-7879b91d/grpo/internal/rundir"
	"github.com/seed-7879b91d/grpo/internal/stats"
)

const momentsFile = "optimizer.safetensors"

// state is the state file of a checkpoint, with the same keys as that of a GRPO run.
type state struct {
	Version   int               `json:"version"`
	Step      int               `json:"step"`
	Evaluated int               `json:"evaluated"`
	Seed      uint64            `json:"seed"`
	Cursor    data.Cursor       `json:"cursor"`
	Logs      map[string]int64  `json:"logs"`
	Checksum  map[string]string `json:"sha256"`
	Parts     provenance.Parts  `json:"parts,omitempty"`
	Order     string            `json:"order,omitempty"`
	Seal      string            `json:"seal"`
}

const stateVersion = 3

// save writes a checkpoint of the last step, unless it exists.
func (t *Trainer) save() error {
	if t.broken != nil { // the weights belong to no recorded step
		return nil
	}
	dir := t.record.Checkpoint(t.step)
	s, err := parseState(dir)
	switch {
	case err == nil && s.Evaluated == t.evaluated:
		return t.retain() // a process that was killed may have saved and not cleaned up
	case err == nil: // saved before the step's evaluation: only the state differs, not the weights
		err = t.writeState(dir, s.Checksum)
	default:
		if err := t.checkFinite(context.Background()); err != nil {
			return err
		}
		err = t.record.Save(t.step, func(unfinished string) error {
			return errors.Join(t.logCheckpoint(dir), t.writeCheckpoint(unfinished))
		})
	}
	if err != nil {
		return t.record.WithResumeHint(fmt.Errorf("checkpoint %s: %w", dir, err), t.cfg.Verb()+" ")
	}
	t.watcher.Saved(dir)
	t.report((*readers.Page).Update)
	return t.retain()
}

func (t *Trainer) writeCheckpoint(dir string) error {
	if err := t.policy.Save(filepath.Join(dir, provenance.TrainedDir(t.full)), t.lang.Base); err != nil {
		return err
	}
	if err := t.learner.Adam.SaveState(filepath.Join(dir, momentsFile)); err != nil {
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
	s := state{Version: stateVersion, Step: t.step, Evaluated: t.evaluated, Seed: t.cfg.Seed, Cursor: t.pool.Cursor(),
		Checksum: sums, Parts: t.parts, Order: t.cfg.Order}
	if s.Logs, err = t.record.Lengths(); err != nil {
		return err
	}
	return rundir.WriteState(dir, s)
}

// logCheckpoint adds a line to checkpoints.jsonl, before the checkpoint appears.
func (t *Trainer) logCheckpoint(dir string) error {
	return t.record.Append(rundir.CheckpointLog, map[string]any{
		"name": filepath.Base(dir), "step": t.step, "batch": t.step, "epoch": t.pool.Epoch(),
		"state_path": dir, "sampler_path": filepath.Join(dir, provenance.TrainedDir(t.full))})
}

// retain removes old checkpoints. It keeps the last keep_last, and those of the keep_best evaluations on each set of held-out rows.
func (t *Trainer) retain() error {
	if t.cfg.KeepLast < 1 {
		return nil
	}
	all, err := jsonl.OfKind[HeldOut](t.record.File(metricsFile), heldOutKind)
	if err != nil {
		return err
	}
	return t.record.Retain(t.cfg.KeepLast, t.cfg.KeepBest, stats.BySet(all, (*HeldOut).outcome))
}

// outcome identifies the held-out rows by their number of tokens.
func (h *HeldOut) outcome() stats.Outcome {
	return stats.Outcome{Step: h.Step, Problems: h.Tokens, Value: -h.Loss}
}

// readState reads a checkpoint's state, verifies all its files, and that the run's logs are at least as long as then.
func readState(dir, run string) (state, error) {
	s, err := parseState(dir)
	if err != nil {
		return s, err
	}
	if err := rundir.Verify(dir, s.Checksum); err != nil {
		return s, badinput.Errorf("checkpoint %s: %w", dir, err)
	}
	if err := rundir.CheckLogs(run, rundir.Point{Logs: s.Logs}); err != nil {
		return s, badinput.Errorf("checkpoint %s: %w; type run_dir=DIR init_from=%s to begin another run with its weights", dir, err,
			display.ShellQuote(dir))
	}
	return s, nil
}

// parseState reads only a checkpoint's state.
func parseState(dir string) (s state, err error) {
	if err = rundir.ReadState(dir, &s, stateVersion, stateVersion); err != nil {
		return s, badinput.Errorf("checkpoint %s: %w", dir, err)
	}
	s.Seal = ""
	return s, nil
}
