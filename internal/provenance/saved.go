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

// Checkpoint is that of a step of the run that dir names.
func Checkpoint(dir string, step int) (string, error) {
	if isCheckpoint(dir) {
		return "", badinput.Errorf("%s is a checkpoint already; leave the step out, or give the directory of the run", dir)
	}
	if named := filepath.Join(dir, rundir.Checkpoints, rundir.Name(step)); isDir(named) {
		return named, nil
	}
	return "", missing(dir, step)
}

// CheckNamed refuses a name like that of a checkpoint, such as RUN/step_12, where there is none, and says which there are.
func CheckNamed(dir string) error {
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
		return err // and of no run; what it is then, others say
	}
	switch there, err := Checkpoint(run, step); {
	case err != nil:
		return err
	case there != filepath.Clean(dir):
		return badinput.Errorf("%s: there is no such checkpoint; type %s", dir, there)
	}
	return nil // it is damaged, as reading it tells
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// missing says of a step without a checkpoint what became of it, and which steps have one.
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

// JudgedOf is which problems the evaluations of the run in a directory were of, by their steps. Of those from before there was the
// file nobody knows.
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

// First is what the first evaluation of a run found; nothing where there was none, or it was of other problems, whatever they are called,
// than were held out when a step was made.
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

// Misfit says why what a checkpoint has was not taken over: it could not be read, or is of something else.
func Misfit(dir string, err error) error {
	if at := (*fs.PathError)(nil); errors.As(err, &at) || !badinput.Is(err) {
		if _, full := os.Stat(filepath.Join(dir, ModelDir)); full == nil && at != nil && filepath.Dir(at.Path) == filepath.Join(dir, AdapterDir) {
			return badinput.Errorf("checkpoint %s has all weights of a model, and no adapter; type train=full, or another run_dir to begin anew, "+
				"without init_from", dir)
		}
		return fmt.Errorf("checkpoint %s could not be read: %w; mend that, then type the same again to go on", dir, err)
	}
	return badinput.Errorf("checkpoint %s does not fit the model and what is trained of it: %w; "+
		"give what the run began with, as its %s says, or another run_dir to begin anew, without init_from", dir, err, ConfigFile)
}
