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
	"github.com/seed-7879b91d/grpo/internal/look"
)

const (
	// Checkpoints is the folder of a run that has a folder step_000123 for each checkpoint.
	Checkpoints = "checkpoints"
	// Aside is the folder beside them of what a run went back behind: checkpoints, and the ends of its logs.
	Aside = "set_aside"

	// CheckpointLog has a line for each checkpoint that was made, with its step; retention does not take it out.
	CheckpointLog = "checkpoints.jsonl"

	// StateFile is in every checkpoint.
	StateFile = "state.json"

	partial = ".partial" // ends the name of a checkpoint that is not whole, or not any more
)

// Name is what the checkpoint of a step is called.
func Name(step int) string { return fmt.Sprintf("step_%06d", step) }

// StepOf is the step that a checkpoint is called after, −1 for the name of anything else.
func StepOf(dir string) int {
	name := filepath.Base(dir)
	step, err := strconv.Atoi(strings.TrimPrefix(name, "step_"))
	if err != nil || name != Name(step) {
		return -1
	}
	return step
}

// RunOf is the run directory that dir is, or that it, or what it is a link to, is a checkpoint of.
func RunOf(dir string) string {
	if _, err := os.Stat(filepath.Join(dir, StateFile)); err == nil {
		return filepath.Join(atomicfile.Led(dir), "..", "..")
	}
	return filepath.Clean(dir)
}

// List gives the checkpoints of the run in dir, the last first; none where there is no such directory.
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

// Newest gives the last checkpoint of a run that read takes, "" where there is none; refused tells of later ones. One that may be whole,
// and cannot be looked at, ends the search: an older one would pass for the last.
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
		if outOfReach(err) {
			or := ""
			if i+1 < len(all) {
				or = ", or name an older one, such as " + look.Word(all[i+1])
			}
			return "", refused, fmt.Errorf("%w; that need not be damage: mend it and type the same again%s", err, or)
		}
		refused = append(refused, err)
	}
	return "", refused, nil
}

// outOfReach tells of an error that it says nothing about what is in a file: of rights, of what a process may have, of a network. A disk
// that cannot read a block (EIO) has lost what was there.
func outOfReach(err error) bool {
	var no syscall.Errno
	return errors.As(err, &no) && (no.Temporary() || slices.Contains([]syscall.Errno{syscall.EACCES, syscall.EPERM,
		syscall.ENOMEM, syscall.ENOBUFS, syscall.ESTALE, syscall.ENOTCONN, syscall.EHOSTDOWN, syscall.EHOSTUNREACH}, no))
}

// Refused says why none of a run's checkpoints can be gone on with, of which refused tells, the last first. Where logs are too short for
// several, the last of them speaks for all: it is whole, and says what to type. Where there is none of these, otherwise does.
func Refused(refused []error, otherwise string) error {
	var told []error
	var last error
	short := 0
	for _, err := range refused {
		switch {
		case !errors.As(err, &Short{}):
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
		last = fmt.Errorf("no checkpoint to go on from; %s", otherwise)
	case 1:
		last = fmt.Errorf("no checkpoint to go on from: %w", last)
	default:
		last = fmt.Errorf("no checkpoint to go on from: logs are too short for %d of them: %w", short, last)
	}
	return errors.Join(append(told, last)...)
}

// Checkpoint is where the checkpoint of a step is, or will be.
func (d *Dir) Checkpoint(step int) string { return filepath.Join(d.Path, Checkpoints, Name(step)) }

// Stopped says what became of a run that somebody stopped after a step.
func Stopped(dir string, step int) string {
	if _, err := os.Stat(filepath.Join(dir, Checkpoints, Name(step), StateFile)); err != nil {
		return "stopped before the first step"
	}
	return fmt.Sprintf("stopped after step %d and saved; the same with run_dir=%s goes on", step, look.Word(dir))
}

// Save makes the checkpoint of a step of what write puts into an empty folder. It appears whole or not at
// all, in place of a damaged one that may be there; where it does not, no line of it stays in CheckpointLog.
func (d *Dir) Save(step int, write func(dir string) error) error {
	dir := d.Checkpoint(step)
	unfinished, log := dir+partial, d.logs[CheckpointLog]
	if err := d.moved(); err != nil {
		return err
	}
	if err := errors.Join(disk.RemoveAll(unfinished), disk.MkdirAll(unfinished)); err != nil {
		return within(unfinished, err)
	}
	var was int64
	if log != nil {
		var err error
		if was, err = log.Size(); err != nil {
			return err
		}
	}
	if err := write(unfinished); err != nil {
		err = errors.Join(within(unfinished, err), disk.RemoveAll(unfinished))
		if log != nil {
			err = errors.Join(err, log.Cut(was))
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

// Unwritten says of what could not be written whether something was saved before, and what to type; verb comes before the settings.
func (d *Dir) Unwritten(err error, verb string) error {
	at, first := d.Path, disk.Remedy(err)+", then "
	if m := (Moved{}); errors.As(err, &m) {
		if at, first = m.Now, ""; at == "" {
			return fmt.Errorf("%w; bring it back, then type %srun_dir=%s to go on", err, verb, look.Word(d.Path))
		}
	}
	typed := verb + "run_dir=" + look.Word(at)
	if saved, _ := List(at); len(saved) == 0 {
		return fmt.Errorf("%w; nothing was saved before: %stype %s to begin again", err, first, typed)
	}
	return fmt.Errorf("%w; what was saved before stands: %stype %s to go on", err, first, typed)
}

// within names a file of a folder by its place in there, where an error tells of nothing else: whoever tells of it names the folder.
func within(dir string, err error) error {
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

// remove removes a folder, so that at no time a part of it looks like the whole: its name goes first, for good.
func remove(dir string) error {
	old := dir + ".old" + partial
	if err := disk.Rename(dir, old); os.IsNotExist(err) {
		return nil
	} else if err != nil {
		return err
	}
	return errors.Join(disk.SyncFolder(filepath.Dir(dir)), disk.RemoveAll(old))
}

// Retain removes checkpoints: the last so many stay, those of the steps also, and, by each measure of what steps are worth, the best so
// many of all others that are there, the earlier of equals first. A step that nothing is known of is not among the best.
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

// NoCheckpoint refuses the directory of a checkpoint where that of a run is wanted.
func NoCheckpoint(dir string) error {
	if run := RunOf(dir); run != filepath.Clean(dir) {
		return badinput.Errorf("%s is a checkpoint; type the directory of its run, %s", dir, run)
	}
	return nil
}

// Steps are those of the checkpoints that a run has, the first one first.
func Steps(dir string) (steps []int, err error) {
	if err := NoCheckpoint(dir); err != nil {
		return nil, err
	}
	all, err := List(dir)
	for _, saved := range slices.Backward(all) {
		steps = append(steps, StepOf(saved))
	}
	return steps, err
}
