package warmup

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/footprint"
	"github.com/seed-7879b91d/grpo/internal/plural"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/rundir"
	"github.com/seed-7879b91d/grpo/internal/sources"
)

// origin is where a run starts: from a checkpoint of its own, or anew.
type origin struct {
	checkpoint string // "": none
	state      state
	past       provenance.ResumeOrigin
}

// openRecord chooses the run directory, claims it, and finds where the run starts.
func (t *Trainer) openRecord() (err error) {
	named := t.cfg.RunDir != "" || t.cfg.Resume != "auto" && t.cfg.Resume != "never"
	if err := provenance.ChooseRunDir(t.cfg); err != nil {
		return err
	}
	if err := t.claim(named); err != nil {
		return err
	}
	if t.origin, err = t.findOrigin(); err != nil {
		return err
	}
	if t.cfg.InitFrom != "" && t.origin.checkpoint == "" {
		return badinput.Errorf("init_from=%s: found no run to begin with; expected the directory of a run, or of one of its %s",
			t.cfg.InitFrom, rundir.Checkpoints)
	}
	if err := footprint.FindAdapter(t.cfg, t.origin.checkpoint); err != nil {
		return err
	}
	t.origin.past = provenance.ResumeOrigin{Checkpoint: t.origin.checkpoint, Order: t.origin.state.Order}
	return t.origin.past.Check(t.cfg, t.origin.state.Step, t.backend)
}

// findOrigin finds where the run starts.
func (t *Trainer) findOrigin() (o origin, err error) {
	key, dir := "run_dir", t.cfg.RunDir
	switch t.cfg.Resume {
	case "auto":
	case "never":
		if rundir.HasRun(dir, logFiles) {
			return o, badinput.Errorf("run_dir %s has a run, and resume=never; choose another run_dir, or type resume=auto to resume it", dir)
		}
	default:
		key, dir = "resume", t.cfg.Resume
	}
	if err := provenance.CheckExists(dir); err != nil && key == "resume" {
		return o, badinput.Errorf("%s=%w", key, err)
	}
	if rundir.RunOf(dir) != filepath.Clean(dir) {
		o.checkpoint = dir
		o.state, err = readState(dir, t.cfg.RunDir)
		return o, err
	}
	all, err := rundir.List(dir)
	if err != nil {
		return o, badinput.Errorf("run_dir: %w; choose another one", err)
	}
	var damaged []error
	o.checkpoint, damaged, err = rundir.Newest(dir, func(checkpoint string) (err error) {
		o.state, err = readState(checkpoint, dir)
		return err
	})
	if err == nil && o.checkpoint == "" && (key == "resume" || len(all) > 0) {
		err = badinput.Errorf("%s=%s: %w", key, dir, rundir.NoneResumable(damaged, "choose another run_dir for a new run"))
	}
	if o.checkpoint == "" {
		o.state = state{}
	}
	for _, d := range damaged {
		t.watcher.Warn(fmt.Sprintf("%v; using an older checkpoint, %s", d, o.checkpoint))
	}
	return o, err
}

// checkParts compares the inputs of the run with those recorded in its checkpoint.
func (t *Trainer) checkParts() (err error) {
	if t.parts, err = provenance.FingerprintInputs(t.cfg, &sources.Problems{}, false); err != nil {
		return err
	}
	for key, part := range t.set.parts {
		t.parts[key] = part
	}
	t.parts["model"] = t.print
	return t.origin.past.CheckParts(t.cfg, t.origin.state.Parts, t.parts, t.watcher.Warn)
}

// resume restores the trainer's state.
func (t *Trainer) resume(ctx context.Context) error {
	dir, s := t.origin.checkpoint, t.origin.state
	if dir == "" {
		return nil
	}
	if t.cfg.Allowed("seed") && s.Cursor.Seed == s.Seed {
		s.Seed, s.Cursor.Seed = t.cfg.Seed, t.cfg.Seed
	}
	if s.Seed != t.cfg.Seed {
		return badinput.Errorf("checkpoint %s: its seed is %d, this run's is %d; type seed=%d", dir, s.Seed, t.cfg.Seed, s.Seed)
	}
	if err := t.lessons.begin(ctx, t); err != nil { // the policy still has the weights that the run started with
		return err
	}
	err := t.policy.Restore(filepath.Join(dir, provenance.TrainedDir(t.full)))
	if err == nil {
		err = t.learner.Adam.LoadState(filepath.Join(dir, momentsFile))
	}
	if err != nil {
		return provenance.LoadError(dir, err)
	}
	drifted, err := t.pool.Restore(s.Cursor)
	if err != nil {
		return err
	}
	if drifted {
		t.watcher.Warn("the rows differ from those of the checkpoint: the run continues at the same position in the new data")
	}
	t.step, t.evaluated = s.Step, s.Evaluated
	return nil
}

// Stopped is the message about an interrupted run.
func (t *Trainer) Stopped() string { return rundir.InterruptedMessage(t.cfg.RunDir, t.step) }

// Origin says how the run starts.
func (t *Trainer) Origin() string {
	o, from := t.origin, display.Line(t.origin.checkpoint)
	switch {
	case o.checkpoint == "":
		return "a new run in " + display.Line(t.cfg.RunDir)
	case o.state.Step >= t.Steps():
		return fmt.Sprintf("%s: the run has done all of its %s; type epochs=N or max_steps=N for more", from, plural.Of(t.Steps(), "step"))
	}
	return fmt.Sprintf("resumes from %s, after step %d", from, o.state.Step)
}
