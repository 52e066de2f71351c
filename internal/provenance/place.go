package provenance

import (
	"os"
	"path/filepath"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/rundir"
)

// CheckRunDir checks that a run may be put into a directory, and lists other files there, unless it already has a run. own
// are further names of files that only runs have.
func CheckRunDir(dir string, own []string) (others []string, err error) {
	r, err := Read(dir)
	if err != nil {
		return nil, err
	}
	own = append(own, ManifestFile, rundir.Checkpoints, "data")
	if r.Known() {
		own = append(own, ConfigFile)
	} else if what := rundir.ProtectedDir(dir); what != "" {
		return nil, badinput.Errorf("run_dir=%s is %s; choose a separate directory for the run, such as run_dir=runs/first", dir, what)
	} else if unread := display.TildeHint("run_dir=", dir); unread != "" {
		return nil, badinput.Errorf("run_dir=%s: %s", dir, unread)
	}
	others, err = rundir.CheckForeign(dir, own, []string{ConfigFile})
	switch {
	case err != nil:
		return others, err
	case r.Known() || r.Manifest.Created != "":
		return nil, nil // people keep notes beside their runs
	}
	return others, checkRuns(dir, others)
}

// checkRuns refuses a directory that has runs or checkpoints in it, as two runs would look like one.
func checkRuns(dir string, others []string) error {
	if abs, err := filepath.Abs(dir); err == nil && filepath.Base(abs) == rundir.Checkpoints && isRun(filepath.Dir(abs)) {
		return badinput.Errorf("run_dir=%s has the checkpoints of a run; type run_dir=%s to resume it", dir,
			display.ShellQuote(filepath.Dir(dir)))
	}
	for _, name := range others {
		if isRun(filepath.Join(dir, name)) {
			return badinput.Errorf("run_dir=%s contains other runs, such as %s; choose a new directory beside them, such as %s", dir, name,
				filepath.Join(dir, "new"))
		}
	}
	return nil
}

func isRun(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, ManifestFile))
	return err == nil
}

// Forked is the run that a fork started from, and after which of its steps; 0 if this is no fork.
func (m Manifest) Forked() (run string, step int) {
	return filepath.Dir(filepath.Dir(m.Origin)), max(0, rundir.StepOf(m.Origin))
}
