// Package watch shows runs to browsers while they go on: a list of the runs below some folders, and the report of each, drawn
// again when its files change. It only reads files, so the trainer may end and restart in the meantime.
package watch

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/report"
	"github.com/seed-7879b91d/grpo/internal/rundir"
)

// run is a run directory that is watched.
type run struct {
	name, dir string
	mark      string // describes its files as last seen
	version   int    // changes with mark, and is unique among all runs, as another run may get the same name
	state     report.State
}

// depth is how deep below a folder runs are searched.
const depth = 3

// find returns the runs in folders, which are runs themselves or have some below, sorted by name. Folders that cannot be read are
// errors; the runs in the others are returned anyway.
func find(paths []string) (runs []run, refused error) {
	taken := map[string]bool{}
	for _, path := range paths {
		info, serr := os.Stat(path)
		if serr != nil || !info.IsDir() {
			refused = cmp.Or(refused, badinput.Errorf("%s: found no run; expected the directory of a run, or a folder with runs", path))
			continue
		}
		whole, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		if isRun(whole) {
			runs = append(runs, run{name: unique(filepath.Base(whole), taken), dir: whole})
			continue
		}
		if _, rerr := os.ReadDir(whole); errors.Is(rerr, fs.ErrPermission) {
			refused = cmp.Or(refused, badinput.Errorf("%s: you may not read it; get permission, or leave it out", path))
			continue
		}
		if whole, err = filepath.EvalSymlinks(whole); err != nil { // search below the target of a link
			return nil, err
		}
		for _, dir := range runsBelow(whole) {
			name, err := filepath.Rel(whole, dir)
			if err != nil {
				return nil, err
			}
			runs = append(runs, run{name: unique(filepath.ToSlash(name), taken), dir: dir})
		}
	}
	slices.SortStableFunc(runs, func(a, b run) int { return strings.Compare(a.name, b.name) })
	return runs, refused
}

// unique makes a name that no other run has.
func unique(name string, taken map[string]bool) string {
	free := name
	for n := 2; taken[free]; n++ {
		free = fmt.Sprintf("%s~%d", name, n)
	}
	taken[free] = true
	return free
}

// isRun reports whether a directory was written by a run.
func isRun(dir string) bool {
	for _, name := range []string{"config.json", "manifest.json"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// runsBelow are the runs below a folder, skipping what cannot be read. A link to a run elsewhere counts; one to a run below is not a
// second run.
func runsBelow(root string) (dirs []string) {
	filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil
		case e.Type() == fs.ModeSymlink && !strings.HasPrefix(e.Name(), ".") && isRun(path) && leadsOut(root, path):
			dirs = append(dirs, path)
			return nil
		case !e.IsDir():
			return nil
		case path != root && strings.HasPrefix(e.Name(), "."):
			return fs.SkipDir
		case path != root && isRun(path):
			dirs = append(dirs, path)
			return fs.SkipDir
		case strings.Count(strings.TrimPrefix(path, root), string(filepath.Separator)) >= depth:
			return fs.SkipDir
		}
		return nil
	})
	return dirs
}

// leadsOut reports whether the target of a link is outside of a folder.
func leadsOut(folder, link string) bool {
	target, err := filepath.EvalSymlinks(link)
	return err == nil && !strings.HasPrefix(target, filepath.Clean(folder)+string(filepath.Separator))
}

// files are those that a page is drawn from.
var files = []string{"config.json", "manifest.json", "metrics.jsonl", "train_log.jsonl", "run_log.jsonl", "evaluations.jsonl",
	"checkpoints.jsonl", "autopilot.jsonl", "rollouts.jsonl", "rollouts.jsonl.zst"}

// recently is the age of files up to which a run counts as going on, if the kernel does not tell who holds its lock.
const recently = 2 * time.Minute

// see checks the files of a run, and reports whether they changed.
func (r *run) see(now time.Time) (changed bool) {
	mark, newest := "", time.Time{}
	for _, name := range files {
		if info, err := os.Stat(filepath.Join(r.dir, name)); err == nil {
			mark += fmt.Sprintf("%s %d %d %v\n", name, info.Size(), info.ModTime().UnixNano(), info.Mode())
			if info.ModTime().After(newest) {
				newest = info.ModTime()
			}
		}
	}
	r.state = report.Idle
	if held, known := rundir.Locked(r.dir); held || !known && now.Sub(newest) < recently {
		r.state = report.Running
	}
	if mark += string(r.state); mark == r.mark {
		return false
	}
	r.mark = mark
	return true
}
