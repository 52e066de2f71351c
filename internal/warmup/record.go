package warmup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/readers"
	"github.com/seed-7879b91d/grpo/internal/report"
	"github.com/seed-7879b91d/grpo/internal/rundir"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/reward"
)

// The logs of the run directory, and the journal for people.
const (
	metricsFile  = "metrics.jsonl"
	trainLogFile = "train_log.jsonl"
	journalFile  = "logs.log"
)

var logFiles = []string{metricsFile, trainLogFile, rundir.CheckpointLog}

// record writes a run's record, and puts what the watcher is told into the journal too.
type record struct {
	*rundir.Dir
	Watcher
	journal rundir.Journal
	page    *readers.Page
	begun   bool
}

func (r *record) Begun(how string) {
	r.journal.Say("%s", how)
	r.Watcher.Begun(how)
}

func (r *record) StepDone(m Metrics, t Timing) {
	r.journal.Say("%s", strings.Join(m.Parts(t), "  "))
	r.Watcher.StepDone(m, t)
}

func (r *record) Evaluated(h HeldOut) {
	r.journal.Say("%s", h.Summary())
	r.Watcher.Evaluated(h)
}

func (r *record) Saved(dir string) {
	r.journal.SayPath("saved", dir)
	r.Watcher.Saved(dir)
}

func (r *record) Warn(what string) {
	r.journal.Say("! %s", what)
	r.Watcher.Warn(what)
}

// claim claims the run directory; without a name it makes a new one.
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
	page, perr := readers.Open(t.cfg, dir.Path, t.cfg.Verb())
	t.record = &record{Dir: dir, Watcher: t.watcher, page: page}
	t.watcher, t.closers = t.record, append(t.closers, dir, &t.record.journal)
	others, err := provenance.CheckRunDir(dir.Path, append(slices.Clone(logFiles), journalFile, referenceFile, report.File))
	if err == nil && len(others) > 0 {
		t.watcher.Warn("run_dir " + display.Line(dir.Path) + " has other files, and no run yet: " + display.Line(strings.Join(others, ", ")))
	}
	return errors.Join(err, perr)
}

// begin starts recording. What was written after the checkpoint that the run resumes from is set aside.
func (t *Trainer) begin(ctx context.Context) error {
	switch {
	case t.broken != nil:
		return fmt.Errorf("a step was not finished; resume from the last checkpoint: %w", t.broken)
	case ctx.Err() != nil:
		return ctx.Err()
	case t.record.begun:
		return nil
	}
	from := rundir.Point{Step: t.step, Files: []string{provenance.ConfigFile, provenance.ManifestFile}}
	if t.origin.checkpoint != "" {
		from.Logs, from.Files = t.origin.state.Logs, nil
	}
	aside, err := t.record.Begin(logFiles, from)
	if err != nil {
		return err
	}
	if err := t.record.journal.Open(t.record.File(journalFile)); err != nil {
		return rundir.WithOtherDirHint(err)
	}
	if aside != "" {
		t.watcher.Warn(fmt.Sprintf("checkpoints and log lines after step %d were moved to %s", t.step, aside))
	}
	if err := t.writeManifest(); err != nil {
		return err
	}
	before, err := jsonl.OfKind[HeldOut](t.record.File(metricsFile), heldOutKind)
	if err != nil {
		return err
	}
	for i := range before {
		t.recordHeldOut(&before[i])
	}
	t.watcher.Begun(t.Origin())
	if t.origin.checkpoint == "" {
		if err := t.lessons.begin(ctx, t); err != nil {
			return err
		}
	}
	t.record.begun = true
	t.report((*readers.Page).Update)
	return nil
}

// writeManifest records how the run came to be.
func (t *Trainer) writeManifest() (err error) {
	if _, err = kernels.Keep(t.backend, t.cfg.Order); err != nil {
		return err
	}
	m := provenance.Manifest{Backend: t.backend.Name(), Precision: t.cfg.Precision, Order: t.cfg.Order,
		Sandbox: reward.Backend{Kind: "none"}, Problems: t.set.train, HeldOut: t.HeldOutRows(), Seed: t.cfg.Seed,
		Parameters: t.policy.TrainableCount()}
	start := provenance.Start{After: t.step, Order: t.backend.Order(), Parts: t.parts}
	t.ledger, err = provenance.Open(t.record.Dir, t.cfg, t.origin.past, m, start, t.lang.Dir, t.watcher.Warn)
	if err == nil {
		t.closers = append(t.closers, t.ledger)
	}
	return err
}

func (r *record) step(m Metrics, t Timing) error {
	if err := r.append(metricsFile, m); err != nil {
		return err
	}
	return r.append(trainLogFile, t)
}

func (r *record) evaluation(h HeldOut) error {
	return r.append(metricsFile, struct {
		Kind string `json:"kind"`
		HeldOut
	}{heldOutKind, h})
}

// append adds a line to a log. Its error says that the run can be resumed.
func (r *record) append(name string, v any) error {
	if err := r.Append(name, v); err != nil {
		return r.WithResumeHint(err, r.page.Verb+" ")
	}
	return nil
}

// report draws the page and updates the exports of the run. Their failure does not end the run.
func (t *Trainer) report(draw func(*readers.Page) error) {
	if err := draw(t.record.page); err != nil {
		t.watcher.Warn(err.Error())
	}
}
