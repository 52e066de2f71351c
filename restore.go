package grpo

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Checkpoints are the checkpoints of a run directory, the last first.
func Checkpoints(run string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(run, checkpointsDir))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []string
	for _, e := range entries {
		if stepOf(e.Name()) >= 0 {
			all = append(all, filepath.Join(run, checkpointsDir, e.Name()))
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Compare(stepOf(b), stepOf(a)) })
	return all, nil
}

// readState reads a checkpoint's state and verifies every file of it.
func readState(dir string) (state, error) {
	s, err := parseState(dir)
	if err != nil {
		return s, err
	}
	for name, want := range s.Checksum {
		got, err := checksum(filepath.Join(dir, name))
		if err != nil {
			return s, badinput.Errorf("checkpoint %s: %w", dir, err)
		}
		if got != want {
			return s, badinput.Errorf("checkpoint %s: %s is damaged: its sha256 is %s, expected %s", dir, name, got, want)
		}
	}
	return s, nil
}

// parseState reads a checkpoint's state alone.
func parseState(dir string) (s state, err error) {
	text, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return s, badinput.Errorf("checkpoint %s: %w", dir, err)
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, badinput.Errorf("checkpoint %s: %s: %w", dir, stateFile, err)
	}
	if s.Version != stateVersion {
		return s, badinput.Errorf("checkpoint %s: version %d, expected %d: another release of grpo wrote it; go on with that one", dir, s.Version, stateVersion)
	}
	rest := bytes.Replace(text, []byte(s.Seal), nil, 1)
	if got := fmt.Sprintf("%x", sha256.Sum256(rest)); got != s.Seal {
		return s, badinput.Errorf("checkpoint %s: %s is damaged: without its seal its sha256 is %s, the seal says %q", dir, stateFile, got, s.Seal)
	}
	s.Seal = ""
	return s, nil
}

// newestCheckpoint finds the last checkpoint of a run that is whole; damaged tells of those that are
// not. There may be none.
func newestCheckpoint(run string) (dir string, s state, damaged []error, err error) {
	all, err := Checkpoints(run)
	if err != nil {
		return "", s, nil, err
	}
	for _, dir := range all {
		if s, err := readState(dir); err == nil {
			return dir, s, damaged, nil
		} else {
			damaged = append(damaged, err)
		}
	}
	return "", state{}, damaged, nil
}

// restore puts the trainer where a checkpoint was.
func (t *Trainer) restore(dir string, s state) error {
	if s.Seed != t.Seed {
		return badinput.Errorf("checkpoint %s: its seed is %d, this run's is %d; type seed=%d", dir, s.Seed, t.Seed, s.Seed)
	}
	err := t.Policy.Restore(filepath.Join(dir, t.trainedDir()))
	if err == nil {
		err = t.Adam.LoadState(filepath.Join(dir, momentsFile))
	}
	if err != nil {
		return badinput.Errorf("checkpoint %s does not fit the model and what is trained of it: %w; give what the run began with, as its %s says, or another run_dir",
			dir, err, configFile)
	}
	drifted, err := t.Problems.Restore(s.Cursor)
	if err != nil {
		return err
	}
	if drifted {
		t.Watcher.Warn("the problems are not those that the checkpoint was made with: the run goes on at the same place among others, and is no replay any more")
	}
	t.step, t.start, t.evaluated, t.judge = s.Step, s.Start, s.Evaluated, s.Adviser
	return nil
}
