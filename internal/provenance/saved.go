package provenance

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/rundir"
	"github.com/seed-7879b91d/grpo/internal/stats"
)

// JudgedFile has a line for each evaluation of a run: which problems were judged, and which of them were right.
const JudgedFile = "evaluations.jsonl"

// Checkpoint is the checkpoint of a step of the run in dir.
func Checkpoint(dir string, step int) (string, error) {
	if isCheckpoint(dir) {
		return "", badinput.Errorf("%s is a checkpoint already; leave the step out, or give the directory of the run", dir)
	}
	if named := filepath.Join(dir, rundir.Checkpoints, rundir.Name(step)); isDir(named) {
		return named, nil
	}
	return "", missing(dir, step)
}

// CheckExists refuses the name of a checkpoint that does not exist, such as RUN/step_12, and lists those that do.
func CheckExists(dir string) error {
	number, is := strings.CutPrefix(filepath.Base(dir), "step_")
	step, err := strconv.Atoi(number)
	if !is || err != nil || step < 0 || isCheckpoint(dir) {
		return nil
	}
	run := filepath.Dir(filepath.Clean(dir))
	if filepath.Base(run) == rundir.Checkpoints {
		run = filepath.Dir(run)
	}
	if r, err := Read(run); err != nil || !r.Known() {
		return err // no run either: other checks report what it is
	}
	switch there, err := Checkpoint(run, step); {
	case err != nil:
		return err
	case there != filepath.Clean(dir):
		return badinput.Errorf("%s: there is no such checkpoint; type %s", dir, there)
	}
	return nil // it is damaged, which reading it reports
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// missing is the error of a step without a checkpoint. It says whether one was removed, and which steps have one.
func missing(run string, step int) error {
	r, err := Read(run)
	if err != nil {
		return err
	}
	cfg, _, err := r.Last()
	if err != nil {
		return err
	}
	all, err := rundir.List(run)
	if err != nil {
		return err
	}
	there := make([]string, len(all))
	for i, dir := range all {
		there[len(all)-1-i] = strconv.Itoa(rundir.StepOf(dir))
	}
	which := "there are " + strings.Join(there, ", ")
	if len(there) == 0 {
		which = "there are none"
	}
	made, err := jsonl.OfKind[struct{ Step int }](filepath.Join(run, rundir.CheckpointLog), "")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if slices.Contains(made, struct{ Step int }{step}) {
		return badinput.Errorf("%s: step %d was pruned (keep_last=%d, keep_best=%d); %s", run, step, cfg.KeepLast, cfg.KeepBest, which)
	}
	return badinput.Errorf("%s: step %d has no checkpoint; %s", run, step, which)
}

// JudgedOf says which problems each evaluation of the run judged, by step. Runs of older releases have no record of it.
func JudgedOf(dir string) (map[int]stats.Judged, error) {
	all, err := jsonl.OfKind[stats.Judged](filepath.Join(dir, JudgedFile), "")
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	at := make(map[int]stats.Judged, len(all))
	for _, j := range all {
		at[j.Step] = j
	}
	return at, err
}

// First is the result of the run's first evaluation on the problems that were held out at a step; empty if there is none.
func (r *Run) First(step int) (stats.Judged, error) {
	if began := r.startOf(0).Parts["test_data"]; began.SHA256 != r.startOf(step).Parts["test_data"].SHA256 {
		return stats.Judged{}, nil
	}
	all, err := jsonl.OfKind[stats.Judged](filepath.Join(r.Dir, JudgedFile), "")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return stats.Judged{}, err
	}
	return slices.Concat(all, []stats.Judged{{}})[0], nil
}

// LoadError is the error of a checkpoint that could not be loaded: it cannot be read, or does not fit the model.
func LoadError(dir string, err error) error {
	if at := (*fs.PathError)(nil); errors.As(err, &at) || !badinput.Is(err) {
		if _, full := os.Stat(filepath.Join(dir, ModelDir)); full == nil && at != nil && filepath.Dir(at.Path) == filepath.Join(dir, AdapterDir) {
			return badinput.Errorf("checkpoint %s has the weights of a whole model, and no adapter; type train=full, or another run_dir "+
				"for a new run, without init_from", dir)
		}
		return fmt.Errorf("checkpoint %s could not be read: %w; fix that, then type the same again to resume", dir, err)
	}
	return badinput.Errorf("checkpoint %s does not fit the model and the trained weights: %w; "+
		"give the settings that the run began with, as in its %s, or another run_dir for a new run, without init_from", dir, err, ConfigFile)
}
