package grpo

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/autopilot"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/footprint"
	"github.com/seed-7879b91d/grpo/internal/plural"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/readers"
	"github.com/seed-7879b91d/grpo/internal/report"
	"github.com/seed-7879b91d/grpo/internal/rollouts"
	"github.com/seed-7879b91d/grpo/internal/rundir"
	"github.com/seed-7879b91d/grpo/internal/snapshot"
)

// origin is where a run starts: at a checkpoint of its own, at one of another run (a fork), or from scratch.
type origin struct {
	checkpoint string // "": none
	state      snapshot.State
	fork       bool // the checkpoint is another run's
	earlier    bool // the run has later checkpoints
	past       provenance.ResumeOrigin
}

// openRecord decides on the run directory, claims it, and finds where the run starts.
func (t *Trainer) openRecord() error {
	if t.custom.unrecorded { // nothing to resume; init_from may still fork another run
		if t.cfg.RunDir, t.cfg.Resume = "", "auto"; t.cfg.InitFrom == "" {
			return nil
		}
	}
	named := t.cfg.RunDir != "" || t.cfg.Resume != "auto" && t.cfg.Resume != "never"
	if !t.custom.unrecorded {
		if err := provenance.ChooseRunDir(t.cfg); err != nil {
			return err
		}
		if err := t.claim(named); err != nil {
			return err
		}
	}
	var err error
	if t.origin, err = findOrigin(t.cfg, t.watcher); err != nil {
		return err
	}
	if done := t.origin.state.Step; t.cfg.MaxSteps >= 0 && (done > t.cfg.MaxSteps || done == t.cfg.MaxSteps && t.origin.earlier) {
		return badinput.Errorf("max_steps: found %d, but %s has %s already; type a larger number, or leave it out",
			t.cfg.MaxSteps, t.origin.checkpoint, plural.Of(done, "step"))
	}
	if err := footprint.FindAdapter(t.cfg, t.origin.checkpoint); err != nil {
		return err
	}
	t.origin.past = provenance.ResumeOrigin{Checkpoint: t.origin.checkpoint, Fork: t.origin.fork, Order: t.origin.state.Order}
	if err := t.origin.past.Check(t.cfg, t.origin.state.Step, t.backend); err != nil {
		return err
	}
	return t.origin.past.CheckOwn(t.cfg, t.origin.state.Step, t.custom.names(), t.watcher.Warn)
}

// claim takes the run directory for this process. Without a name from the user it reserves a new one.
func (t *Trainer) claim(named bool) error {
	claim := rundir.Reserve
	if named {
		claim = rundir.Claim
	}
	dir, err := claim(t.cfg.RunDir)
	if err != nil {
		return err
	}
	t.cfg.RunDir = dir.Path
	page, perr := readers.Open(t.cfg, dir.Path, "")
	log := &logbook{Watcher: t.watcher}
	t.record = &record{Dir: dir, cfg: t.cfg, log: log, page: page}
	t.watcher, t.closers = log, append(t.closers, dir, log)
	others, err := provenance.CheckRunDir(dir.Path, append(slices.Clone(logFiles), autopilot.File, rollouts.PlainFile, rollouts.CompressedFile,
		logFile, report.File))
	if err == nil && len(others) > 0 {
		t.watcher.Warn("run_dir " + display.Line(dir.Path) + " has other files, and no run yet: " + display.Line(strings.Join(others, ", ")))
	}
	return errors.Join(err, perr)
}

// findOrigin finds where the run starts, from resume, run_dir and init_from, in this order.
func findOrigin(cfg *configs.Config, w Watcher) (o origin, err error) {
	if cfg.Resume != "auto" && cfg.Resume != "never" {
		return namedOrigin("resume", cfg.Resume, w)
	}
	all, err := rundir.List(cfg.RunDir)
	if err != nil {
		return o, badinput.Errorf("run_dir: %w; choose another one", err)
	}
	switch {
	case cfg.Resume == "never" && rundir.HasRun(cfg.RunDir, logFiles):
		return o, badinput.Errorf("run_dir %s has a run with %s, and resume=never; choose another run_dir, or type resume=auto to resume it",
			cfg.RunDir, plural.Of(len(all), "checkpoint"))
	case len(all) > 0:
		return namedOrigin("run_dir", cfg.RunDir, w)
	case cfg.InitFrom != "":
		o, err = namedOrigin("init_from", cfg.InitFrom, w)
		o.fork = true
	}
	return o, err
}

// namedOrigin reads the checkpoint in dir, or the newest sound one of the run in dir. key is the setting that names it, for messages.
func namedOrigin(key, dir string, w Watcher) (origin, error) {
	named := strings.Replace(key+"=", "run=", "run ", 1) // "run" is a flag or an argument, not a setting
	if err := provenance.CheckExists(dir); err != nil {
		return origin{}, badinput.Errorf("%s%w", named, err)
	}
	if run := rundir.RunOf(dir); run != filepath.Clean(dir) {
		st, err := snapshot.Read(dir)
		if err == nil && key == "resume" {
			err = st.CheckLogs(dir, run)
		}
		all, lerr := rundir.List(run)
		later := key == "resume" && len(all) > 0 && rundir.StepOf(all[0]) > st.Step
		return origin{checkpoint: dir, state: st, earlier: later}, cmp.Or(err, lerr)
	}
	newest, st, damaged, err := snapshot.Newest(dir, key == "resume" || key == "run_dir")
	if err != nil {
		return origin{}, badinput.Errorf("%s%s: %w", named, dir, err)
	}
	if newest == "" {
		return origin{}, badinput.Errorf("%s%s: %w", named, dir, rundir.NoneResumable(damaged, originHint(key)))
	}
	for _, d := range damaged {
		w.Warn(fmt.Sprintf("%v; using an older checkpoint, %s", d, newest))
	}
	return origin{checkpoint: newest, state: st}, nil
}

// originHint is the hint for a setting that names no usable checkpoint.
func originHint(key string) string {
	return cmp.Or(map[string]string{
		"run_dir": "choose another run_dir for a new run",
		"run":     "expected the directory of a run that has one, or of one of its " + rundir.Checkpoints,
	}[key], fmt.Sprintf("expected %s=DIR of a run, or of one of its %s", key, rundir.Checkpoints))
}

// resume restores the trainer from the run's origin and starts the autopilot.
func (t *Trainer) resume() error {
	dir, s := t.origin.checkpoint, t.origin.state
	if dir == "" {
		return t.startPilot()
	}
	if (t.origin.fork || t.cfg.Allowed("seed")) && s.Cursor.Seed == s.Seed {
		s.Seed, s.Cursor.Seed = t.cfg.Seed, t.cfg.Seed
	}
	if s.Seed != t.cfg.Seed {
		return badinput.Errorf("checkpoint %s: its seed is %d, this run's is %d; type seed=%d", dir, s.Seed, t.cfg.Seed, s.Seed)
	}
	if err := restore(dir, t.policy, t.learner.Adam); err != nil {
		return provenance.LoadError(dir, err)
	}
	drifted, err := t.pool.Restore(s.Cursor)
	if err != nil {
		return err
	}
	if drifted {
		t.watcher.Warn("the problems differ from those of the checkpoint: " +
			"the run continues at the same position in the new data, and a replay will not match")
	}
	t.step, t.start, t.evaluated = s.Step, s.Step, s.Step
	if t.origin.fork { // its data, rewards and settings are its own: advice and rollouts of the other run do not apply
		return t.startPilot()
	}
	t.start, t.evaluated, t.advisor, t.pilot = s.Start, s.Evaluated, s.Advisor, s.Pilot
	if err := t.startPilot(); err != nil || s.Pilot.DiscardsAhead(t.cfg.Autopilot) || t.parts.Differences(s.Parts)["data"] != "" {
		return err // rollouts that were sampled ahead belong to other settings or data: sample them anew
	}
	t.ahead, err = t.restoreAhead(filepath.Join(dir, aheadFile))
	return err
}

// Origin says in words where the run starts.
func (t *Trainer) Origin() string {
	o, from, dir := t.origin, display.Line(t.origin.checkpoint), display.Line(t.cfg.RunDir)
	switch {
	case o.checkpoint != "" && t.cfg.MaxSteps >= 0 && o.state.Step >= t.cfg.MaxSteps:
		return fmt.Sprintf("%s: the run has done all of its %s; type max_steps=N for more", from, plural.Of(t.cfg.MaxSteps, "step"))
	case o.checkpoint == "":
		return "a new run in " + dir
	case o.fork:
		return fmt.Sprintf("a new run in %s from %s, after step %d", dir, from, o.state.Step)
	}
	return fmt.Sprintf("resumes from %s, after step %d", from, o.state.Step)
}
