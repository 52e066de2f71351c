package sweep

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/disk"
	"github.com/seed-7879b91d/grpo/internal/display"
)

// The files of a sweep's directory. Runs are in the folder runs, their output in the folder logs.
const (
	File        = "sweep.json"
	BaseFile    = "base.yaml"           // the settings that all runs share
	WholeFile   = "base_completed.yaml" // the same with settings that were added since, for a sweep of an older release
	ResultsFile = "results.csv"
	PageFile    = "comparison.html"
)

// Plan is what a sweep is to do. Equal plans have the same runs.
type Plan struct {
	Words  []string `json:"words"`
	Base   string   `json:"base_sha256"` // of BaseFile
	Random int      `json:"random,omitempty"`
	Seed   uint64   `json:"random_seed,omitempty"`
	Rungs  []int    `json:"rungs,omitempty"` // step counts at which half of the runs is eliminated; at the last the best is chosen

	base []byte
}

// SetBase sets the text of the shared settings.
func (p *Plan) SetBase(text []byte) { p.base, p.Base = text, fmt.Sprintf("%x", sha256.Sum256(text)) }

// The states of a run.
const (
	Waiting    = "waiting" // not started, or interrupted
	Running    = "running"
	Done       = "done"
	Failed     = "failed"
	Eliminated = "left behind" // eliminated
	Removed    = "taken out"   // removed by the user; for an older release, a run to be neither made nor compared
)

// Entry is a run in the journal.
type Entry struct {
	Name  string   `json:"name"`
	Words []string `json:"words"`
	State string   `json:"state"`
	Why   string   `json:"why,omitempty"` // why it failed
	// Again is set for a run that failed without breaking its policy: it is worth another try, and a race waits for it.
	Again bool `json:"again,omitempty"`
	// Scores are the held-out pass@1 at the rungs so far.
	Scores []float64 `json:"scores,omitempty"`
}

// Journal is sweep.json: the plan, and the state of each run. It is rewritten at every change.
type Journal struct {
	Version int     `json:"version"`
	Plan    Plan    `json:"plan"`
	Runs    []Entry `json:"runs"`
	// Directory is the working directory of the sweep, to which paths in its settings are relative.
	Directory string `json:"directory,omitempty"`

	dir   string
	whole []byte   // the shared settings, with all keys of this release
	lock  *os.File // of the directory; nil: not claimed
	fresh bool     // the directory had no journal
}

// Open opens the journal of a directory, or begins one. Without a plan there must be a journal; a plan must be equal to the journal's.
func Open(dir string, plan *Plan) (*Journal, error) {
	text, err := os.ReadFile(filepath.Join(dir, File))
	if errors.Is(err, fs.ErrNotExist) {
		if plan == nil {
			return nil, badinput.Errorf("%s: no sweep to resume; type grpo sweep key=value,value --dir %s to begin one", dir,
				display.ShellQuote(dir))
		}
		return begin(dir, plan)
	}
	if err != nil {
		return nil, badinput.Errorf("%w", err)
	}
	j := &Journal{dir: dir}
	if err := json.Unmarshal(text, j); err != nil || j.Version != 1 {
		return nil, badinput.Errorf("%s is not the journal of a sweep, or of another release; choose another --dir", filepath.Join(dir, File))
	}
	if j.Plan.base, err = os.ReadFile(j.BasePath()); err != nil {
		return nil, badinput.Errorf("%w; it is part of the sweep: restore it, or choose another --dir", err)
	}
	if was := j.Plan.Base; fmt.Sprintf("%x", sha256.Sum256(j.Plan.base)) != was {
		return nil, badinput.Errorf("%s was changed since the sweep wrote it; restore it, or choose another --dir", j.BasePath())
	}
	if j.whole, err = configs.Completed(j.BasePath(), bytes.Clone(j.Plan.base)); err != nil {
		return nil, err
	}
	if plan != nil && !plan.equal(&j.Plan, j.whole) {
		return nil, badinput.Errorf("%s has a sweep with other settings; type grpo sweep --dir %s to resume that one, or choose another --dir",
			dir, display.ShellQuote(dir))
	}
	// Runs that were interrupted are resumed, failed ones are tried again (unless a race went on without them), and finished ones that
	// were removed are repeated.
	for i := range j.Runs {
		s := &j.Runs[i]
		if s.State == Running || s.State == Failed && (s.Again || len(j.Plan.Rungs) == 0) {
			s.State, s.Why, s.Again = Waiting, "", false
		}
		if s.State == Done && j.gone(s.Name) {
			s.State, s.Scores = Waiting, nil
		}
	}
	return j, nil
}

func begin(dir string, plan *Plan) (*Journal, error) {
	axes, err := Parse(plan.Words)
	if err != nil {
		return nil, err
	}
	runs, err := plan.combinations(axes)
	if err != nil {
		return nil, err
	}
	here, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	j := &Journal{Version: 1, Plan: *plan, Directory: here, dir: dir, whole: plan.base, fresh: true}
	for i, name := range Names(runs) {
		j.Runs = append(j.Runs, Entry{Name: name, Words: runs[i], State: Waiting})
	}
	return j, nil
}

func (p *Plan) combinations(axes []Axis) ([][]string, error) {
	if p.Random > mostRuns {
		return nil, badinput.Errorf("--random: found %d, expected %d combinations at the most", p.Random, mostRuns)
	}
	if p.Random > 0 {
		return Random(axes, p.Random, p.Seed), nil
	}
	return Grid(axes)
}

// equal compares a plan with one of a journal, whose shared settings are whole.
func (p *Plan) equal(other *Plan, whole []byte) bool {
	same := p.Base == other.Base || slices.Equal(settings(p.base), settings(whole))
	return same && slices.Equal(p.Words, other.Words) && p.Random == other.Random && p.Seed == other.Seed &&
		slices.Equal(p.Rungs, other.Rungs)
}

// settings are the lines of the shared settings, sorted and without comments, as order and comments may change between releases.
func settings(base []byte) (lines []string) {
	for line := range strings.Lines(string(base)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines
}

// Chdir changes to the working directory of the sweep, and reports whether that is another one. If it is gone or unknown, the
// sweep continues here: a run that misses its files fails.
func (j *Journal) Chdir() (elsewhere bool, err error) {
	here, err := os.Getwd()
	if err != nil || j.Directory == "" || j.Directory == here {
		return false, err
	}
	if j.dir, err = filepath.Abs(j.dir); err != nil {
		return false, err
	}
	return os.Chdir(j.Directory) == nil, nil
}

// Begin writes the journal and the shared settings, before the first run.
func (j *Journal) Begin() error {
	for _, folder := range []string{"runs", "logs"} {
		if err := os.MkdirAll(filepath.Join(j.dir, folder), 0o755); err != nil {
			return j.unwritten(err)
		}
	}
	if err := j.begun(); err != nil {
		return err
	}
	if err := atomicfile.WriteBytes(j.BasePath(), j.Plan.base); err != nil {
		return j.unwritten(err)
	}
	if path := j.SettingsPath(); path != j.BasePath() {
		if err := atomicfile.WriteBytes(path, j.whole); err != nil {
			return j.unwritten(err)
		}
	}
	if err := j.write(); err != nil {
		return j.unwritten(err)
	}
	return nil
}

// unwritten is the error of a journal that cannot be written. Another directory helps only if the sweep has not begun.
func (j *Journal) unwritten(err error) error {
	switch {
	case !j.fresh:
		return fmt.Errorf("--dir: %w; %s, then type grpo sweep --dir %s to resume", err, disk.Remedy(err), display.ShellQuote(j.dir))
	case disk.IsFull(err):
		return badinput.Errorf("--dir: %w; make room there, or choose another one", err)
	}
	return badinput.Errorf("--dir: %w; choose another one", err)
}

func (j *Journal) write() error {
	text, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(j.dir, File), append(text, '\n'))
}

// Base is the text of the shared settings, for runs of this release.
func (j *Journal) Base() []byte { return j.whole }

// SettingsPath is the file with that text.
func (j *Journal) SettingsPath() string {
	if bytes.Equal(j.whole, j.Plan.base) {
		return j.BasePath()
	}
	return filepath.Join(j.dir, WholeFile)
}

// BasePath is the file with the shared settings as the sweep began.
func (j *Journal) BasePath() string { return filepath.Join(j.dir, BaseFile) }

// RunDir is the directory of a run.
func (j *Journal) RunDir(name string) string { return filepath.Join(j.dir, "runs", name) }

// LogPath is the file with the output of a run.
func (j *Journal) LogPath(name string) string { return filepath.Join(j.dir, "logs", name+".log") }

// LogsDir is where the logs of all runs are.
func (j *Journal) LogsDir() string { return filepath.Join(j.dir, "logs") }
