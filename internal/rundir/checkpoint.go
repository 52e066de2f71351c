package rundir

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/disk"
	"github.com/seed-7879b91d/grpo/internal/display"
)

const (
	// Checkpoints is the folder of a run for its checkpoints, each in a folder such as step_000123.
	Checkpoints = "checkpoints"
	// RolledBackDir is a folder beside the checkpoints for what a rollback left behind: later checkpoints and ends of logs.
	RolledBackDir = "set_aside"

	// CheckpointLog has a line for each checkpoint that was ever saved, with its step, even after retention removed it.
	CheckpointLog = "checkpoints.jsonl"

	// StateFile is in every checkpoint.
	StateFile = "state.json"

	partial = ".partial" // suffix of a checkpoint that is being written or removed
)

// Name is the folder name of the checkpoint of a step.
func Name(step int) string { return fmt.Sprintf("step_%06d", step) }

// StepOf is the step in the name of a checkpoint, −1 if it is not such a name.
func StepOf(dir string) int {
	name := filepath.Base(dir)
	step, err := strconv.Atoi(strings.TrimPrefix(name, "step_"))
	if err != nil || name != Name(step) {
		return -1
	}
	return step
}

// RunOf is the run directory of a checkpoint, or of a link to one. Any other directory is taken for the run directory itself.
func RunOf(dir string) string {
	if _, err := os.Stat(filepath.Join(dir, StateFile)); err == nil {
		return filepath.Join(atomicfile.ResolveLink(dir), "..", "..")
	}
	return filepath.Clean(dir)
}

// List returns the checkpoints of the run in dir, the last first; none if there is no such directory.
func List(dir string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(dir, Checkpoints))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []string
	for _, e := range entries {
		if StepOf(e.Name()) >= 0 {
			all = append(all, filepath.Join(dir, Checkpoints, e.Name()))
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Compare(StepOf(b), StepOf(a)) })
	return all, nil
}

// Newest returns the last checkpoint of a run that read accepts, "" if there is none; refused are the errors of later ones. A checkpoint
// that cannot be accessed ends the search with an error: it may be sound, and an older one must not pass for the last.
func Newest(dir string, read func(dir string) error) (newest string, refused []error, err error) {
	all, err := List(dir)
	if err != nil {
		return "", nil, err
	}
	for i, dir := range all {
		err := read(dir)
		if err == nil {
			return dir, refused, nil
		}
		if inaccessible(err) {
			or := ""
			if i+1 < len(all) {
				or = ", or name an older one, such as " + display.ShellQuote(all[i+1])
			}
			return "", refused, fmt.Errorf("%w; that need not be damage: fix it and type the same command again%s", err, or)
		}
		refused = append(refused, err)
	}
	return "", refused, nil
}

// inaccessible reports whether an error says nothing about a file's content: permissions, resource limits, the network. EIO is not among
// them: a disk that cannot read a block has lost it.
func inaccessible(err error) bool {
	var no syscall.Errno
	return errors.As(err, &no) && (no.Temporary() || slices.Contains([]syscall.Errno{syscall.EACCES, syscall.EPERM,
		syscall.ENOMEM, syscall.ENOBUFS, syscall.ESTALE, syscall.ENOTCONN, syscall.EHOSTDOWN, syscall.EHOSTUNREACH}, no))
}

// NoneResumable is the error of a run none of whose checkpoints can be resumed; refused are their errors, the last checkpoint first. If
// logs are too short for several, only the error of the last is told: it says what to type. If there is none of these, otherwise is the
// hint.
func NoneResumable(refused []error, otherwise string) error {
	var told []error
	var last error
	short := 0
	for _, err := range refused {
		switch {
		case !errors.As(err, &ShortLogError{}):
			told = append(told, err)
		case short == 0:
			last = err
			fallthrough
		default:
			short++
		}
	}
	switch short {
	case 0:
		last = fmt.Errorf("no checkpoint to resume from; %s", otherwise)
	case 1:
		last = fmt.Errorf("no checkpoint to resume from: %w", last)
	default:
		last = fmt.Errorf("no checkpoint to resume from: logs are too short for %d of them: %w", short, last)
	}
	return errors.Join(append(told, last)...)
}

// Checkpoint is the path of the checkpoint of a step, saved or not.
func (d *Dir) Checkpoint(step int) string { return filepath.Join(d.Path, Checkpoints, Name(step)) }

// InterruptedMessage is the message about a run that was interrupted after a step.
func InterruptedMessage(dir string, step int) string {
	if _, err := os.Stat(filepath.Join(dir, Checkpoints, Name(step), StateFile)); err != nil {
		return "stopped before the first step"
	}
	return fmt.Sprintf("stopped after step %d and saved; the same command with run_dir=%s resumes", step, display.ShellQuote(dir))
}

// Save makes the checkpoint of a step from the files that write puts into an empty folder. It appears whole or not at
// all, and replaces a damaged one. If it fails, lines that write added to CheckpointLog are taken back.
func (d *Dir) Save(step int, write func(dir string) error) error {
	dir := d.Checkpoint(step)
	unfinished, log := dir+partial, d.logs[CheckpointLog]
	if err := d.moved(); err != nil {
		return err
	}
	if err := errors.Join(disk.RemoveAll(unfinished), disk.MkdirAll(unfinished)); err != nil {
		return relativeTo(unfinished, err)
	}
	var was int64
	if log != nil {
		var err error
		if was, err = log.Size(); err != nil {
			return err
		}
	}
	if err := write(unfinished); err != nil {
		err = errors.Join(relativeTo(unfinished, err), disk.RemoveAll(unfinished))
		if log != nil {
			err = errors.Join(err, log.Truncate(was))
		}
		return err
	}
	if err := errors.Join(disk.SyncFolder(unfinished), remove(dir), disk.Rename(unfinished, dir)); err != nil {
		return err
	}
	if err := disk.SyncFolder(filepath.Dir(dir)); err != nil {
		return err
	}
	return d.dropDone()
}

// WithResumeHint adds to a write error whether there is a checkpoint and what to type; verb is the command before the settings.
func (d *Dir) WithResumeHint(err error, verb string) error {
	at, first := d.Path, disk.Remedy(err)+", then "
	if m := (MovedError{}); errors.As(err, &m) {
		if at, first = m.Now, ""; at == "" {
			return fmt.Errorf("%w; move it back, then type %srun_dir=%s to resume", err, verb, display.ShellQuote(d.Path))
		}
	}
	typed := verb + "run_dir=" + display.ShellQuote(at)
	if saved, _ := List(at); len(saved) == 0 {
		return fmt.Errorf("%w; nothing had been saved: %stype %s to start again", err, first, typed)
	}
	return fmt.Errorf("%w; the checkpoints saved before are intact: %stype %s to resume", err, first, typed)
}

// relativeTo makes the path in an error relative to a folder, if it lies there, for messages that name the folder themselves.
func relativeTo(dir string, err error) error {
	var of *fs.PathError
	if !errors.As(err, &of) || err.Error() != of.Error() {
		return err
	}
	if name, rerr := filepath.Rel(dir, of.Path); rerr == nil && name == "." {
		return of.Err
	} else if rerr == nil && filepath.IsLocal(name) {
		return &fs.PathError{Op: of.Op, Path: name, Err: of.Err}
	}
	return err
}

// remove removes a folder. It is renamed first, durably, so that a crash cannot leave a part of it under its name.
func remove(dir string) error {
	old := dir + ".old" + partial
	if err := disk.Rename(dir, old); os.IsNotExist(err) {
		return nil
	} else if err != nil {
		return err
	}
	return errors.Join(disk.SyncFolder(filepath.Dir(dir)), disk.RemoveAll(old))
}

// Retain removes checkpoints. It keeps the last ones, those of the steps also, and, for each measure, the best of all others; the
// earlier of equals is better. A measure maps steps to their scores; a step without one is not among the best.
func (d *Dir) Retain(last, best int, measures []map[int]float64, also ...int) error {
	all, err := List(d.Path)
	if err != nil {
		return err
	}
	stay := slices.Clone(all[:min(last, len(all))])
	for _, step := range also {
		stay = append(stay, d.Checkpoint(step))
	}
	for _, worth := range measures {
		known := slices.DeleteFunc(slices.Clone(all), func(dir string) bool {
			_, ok := worth[StepOf(dir)]
			return !ok || slices.Contains(also, StepOf(dir))
		})
		slices.SortFunc(known, func(a, b string) int {
			return cmp.Or(cmp.Compare(worth[StepOf(b)], worth[StepOf(a)]), cmp.Compare(StepOf(a), StepOf(b)))
		})
		stay = append(stay, known[:min(best, len(known))]...)
	}
	for _, dir := range all {
		if slices.Contains(stay, dir) {
			continue
		}
		if err := remove(dir); err != nil {
			return err
		}
	}
	return nil
}

// RefuseCheckpoint refuses a checkpoint's directory where a run directory is expected.
func RefuseCheckpoint(dir string) error {
	if run := RunOf(dir); run != filepath.Clean(dir) {
		return badinput.Errorf("%s is a checkpoint; type the directory of its run, %s", dir, run)
	}
	return nil
}

// Steps are the steps of a run's checkpoints, in ascending order.
func Steps(dir string) (steps []int, err error) {
	if err := RefuseCheckpoint(dir); err != nil {
		return nil, err
	}
	all, err := List(dir)
	for _, saved := range slices.Backward(all) {
		steps = append(steps, StepOf(saved))
	}
	return steps, err
}
