package grpo

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/atomicfile"
)

// The parts of a checkpoint.
const (
	checkpointsDir = "checkpoints"
	partialSuffix  = ".partial" // of one that is not whole, or not any more
	stateFile      = "state.json"
	momentsFile    = "optimizer.safetensors"
	adapterDir     = "adapter" // what is trained, or
	modelDirName   = "model"
	asideDir       = "set_aside"  // of checkpoints after the one that the run went on from
	aheadFile      = "ahead.json" // where steps are sampled ahead
)

// state is what a checkpoint knows besides the adapter and the moments. Draws depend on the seed and
// on where they are made, so there is no generator to save.
type state struct {
	Version int `json:"version"`
	Step    int `json:"step"`
	// Evaluated is the first step that has no evaluation yet.
	Evaluated int               `json:"evaluated"`
	Start     int               `json:"start"`
	Seed      uint64            `json:"seed"`
	Cursor    data.Cursor       `json:"cursor"`
	Adviser   adviser           `json:"adviser"`
	Logs      map[string]int64  `json:"logs"`   // how long the files of the record are
	Checksum  map[string]string `json:"sha256"` // of every other file
	Seal      string            `json:"seal"`   // the SHA-256 of this file without it: damage can leave it valid JSON
}

const stateVersion = 2

// save writes a checkpoint of the last step, unless there is one already or nothing is recorded. It
// appears whole or not at all.
func (t *Trainer) save() error {
	if t.record == nil {
		return nil
	}
	dir := t.checkpointDir()
	s, err := parseState(dir)
	switch {
	case err == nil && s.Evaluated == t.evaluated:
		return t.retain() // which a process that was killed may have left undone
	case err == nil: // it was made in the middle of the step's evaluation; what is trained is the same
		err = t.writeState(dir, s.Checksum)
	default:
		err = t.newCheckpoint(dir)
	}
	if err != nil {
		return t.record.unwritten(fmt.Errorf("checkpoint %s: %w", dir, err))
	}
	t.Watcher.Saved(dir)
	t.report()
	return t.retain()
}

// newCheckpoint writes a checkpoint under another name first. There may be a damaged one in its place.
func (t *Trainer) newCheckpoint(dir string) error {
	partial := dir + partialSuffix
	if err := errors.Join(os.RemoveAll(partial), os.MkdirAll(partial, 0o755)); err != nil {
		return err
	}
	if err := errors.Join(t.logCheckpoint(dir), t.writeCheckpoint(partial)); err != nil {
		return errors.Join(err, os.RemoveAll(partial))
	}
	if err := errors.Join(remove(dir), os.Rename(partial, dir)); err != nil {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(dir))
}

// remove removes a checkpoint, so that at no time a part of it looks like one.
func remove(dir string) error {
	old := dir + ".old" + partialSuffix
	if err := os.Rename(dir, old); err != nil && !os.IsNotExist(err) {
		return err
	}
	return os.RemoveAll(old)
}

// checkpointDir is the checkpoint of the last step.
func (t *Trainer) checkpointDir() string {
	return filepath.Join(t.record.Dir, checkpointsDir, stepName(t.step))
}

// trainedDir is the folder of a checkpoint that has what is trained.
func (t *Trainer) trainedDir() string {
	if t.Full {
		return modelDirName
	}
	return adapterDir
}

func (t *Trainer) writeCheckpoint(dir string) error {
	if err := t.Policy.Save(filepath.Join(dir, t.trainedDir()), t.BaseModel); err != nil {
		return err
	}
	if err := t.Adam.SaveState(filepath.Join(dir, momentsFile)); err != nil {
		return err
	}
	if err := t.saveAhead(filepath.Join(dir, aheadFile)); err != nil {
		return err
	}
	sums := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err == nil {
			sums[filepath.ToSlash(name)], err = checksum(path)
		}
		return err
	})
	if err != nil {
		return err
	}
	return t.writeState(dir, sums)
}

// writeState writes the state of the last step beside files with these checksums.
func (t *Trainer) writeState(dir string, sums map[string]string) error {
	s := state{Version: stateVersion, Step: t.step, Start: t.start, Evaluated: t.evaluated, Seed: t.Seed, Cursor: t.Problems.Cursor(), Checksum: sums,
		Adviser: t.judge}
	var err error
	if s.Logs, err = t.record.lengths(); err != nil {
		return err
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	text = bytes.Replace(text, []byte(`"seal": ""`), fmt.Appendf(nil, `"seal": "%x"`, sha256.Sum256(text)), 1)
	return atomicfile.WriteBytes(filepath.Join(dir, stateFile), text)
}

func checksum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// logCheckpoint adds a line to checkpoints.jsonl. It comes before the checkpoint appears: should that
// not happen, the run goes on from an earlier one, and drops the line.
func (t *Trainer) logCheckpoint(dir string) error {
	err := t.record.append(checkpointLog, map[string]any{"name": filepath.Base(dir), "step": t.step, "batch": t.step, "epoch": t.Problems.Epoch(),
		"state_path": dir, "sampler_path": filepath.Join(dir, t.trainedDir())})
	if err != nil {
		return err
	}
	return t.record.sync()
}

// retain removes old checkpoints: the last KeepLast stay, and those of the KeepBest evaluations.
func (t *Trainer) retain() error {
	if t.KeepLast < 1 {
		return nil
	}
	all, err := Checkpoints(t.record.Dir)
	if err != nil {
		return err
	}
	best, err := t.record.bestSteps(t.KeepBest, all)
	if err != nil {
		return err
	}
	for _, dir := range all[min(t.KeepLast, len(all)):] {
		if slices.Contains(best, stepOf(dir)) {
			continue
		}
		if err := remove(dir); err != nil {
			return err
		}
	}
	return nil
}

func stepName(step int) string { return fmt.Sprintf("step_%06d", step) }

// stepOf is the step that a checkpoint is called after, −1 for the name of anything else.
func stepOf(dir string) int {
	name := filepath.Base(dir)
	step, err := strconv.Atoi(strings.TrimPrefix(name, "step_"))
	if err != nil || name != stepName(step) {
		return -1
	}
	return step
}

// bestSteps are the n steps with the best greedy pass@1 among those that have a checkpoint, the earlier of
// equals first.
func (r *Record) bestSteps(n int, checkpoints []string) ([]int, error) {
	all, err := r.evaluations()
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(e Evaluation) bool {
		return !slices.ContainsFunc(checkpoints, func(dir string) bool { return stepOf(dir) == e.Step })
	})
	slices.SortStableFunc(all, func(a, b Evaluation) int { return cmp.Compare(b.Greedy, a.Greedy) })
	var steps []int
	for _, e := range all[:min(n, len(all))] {
		steps = append(steps, e.Step)
	}
	return steps, nil
}
