package grpo

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/autopilot"
	"github.com/seed-7879b91d/grpo/internal/given"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/readers"
	"github.com/seed-7879b91d/grpo/internal/rollouts"
	"github.com/seed-7879b91d/grpo/internal/rundir"
	"github.com/seed-7879b91d/grpo/internal/stats"
)

// The files of a run directory that grow line by line.
const (
	metricsFile  = "metrics.jsonl"   // Metrics and Evaluations: the same in every run of the same
	trainLogFile = "train_log.jsonl" // Timing
	runLogFile   = "run_log.jsonl"   // Advice

	judgedFile = provenance.JudgedFile
)

// logFiles are those of every run; where completions are is for the package rollouts to say.
var logFiles = []string{metricsFile, trainLogFile, runLogFile, judgedFile, rundir.CheckpointLog}

// record writes a run down in its directory. A nil record writes nothing.
type record struct {
	*rundir.Dir
	cfg   *configs.Config
	log   *logbook
	page  *readers.Page
	begun bool
}

// begin starts recording, with the first thing that is to be recorded: what was written after the checkpoint
// that the run goes on from is set aside, checkpoints of later steps with it.
func (t *Trainer) begin(ctx context.Context) error {
	given.All("grpo.Trainer", "ctx", ctx)
	switch {
	case t.closed:
		return errClosed
	case t.broken != nil:
		return fmt.Errorf("a step was left half done, go on from the last checkpoint: %w", t.broken)
	case ctx.Err() != nil:
		return ctx.Err()
	case t.record == nil || t.record.begun:
		return nil
	}
	from := rundir.Point{Step: t.step, Files: []string{provenance.ConfigFile, provenance.ManifestFile}}
	if t.origin.checkpoint != "" && !t.origin.fork {
		from.Logs, from.Files = t.origin.state.Logs, nil
	}
	logs := slices.Concat(logFiles, rollouts.Logs(t.cfg, t.record.Path))
	if _, err := os.Stat(t.record.File(autopilot.File)); err == nil || t.cfg.Autopilot {
		logs = append(logs, autopilot.File)
	}
	aside, err := t.record.Begin(logs, from)
	if err != nil {
		return err
	}
	if err := t.record.log.Open(t.record.File(logFile)); err != nil {
		return rundir.Elsewhere(err)
	}
	if aside != "" {
		t.watcher.Warn(fmt.Sprintf("what the run had after step %d is set aside in %s", t.step, aside))
	}
	for _, do := range []func() error{func() error { return t.problems.Keep(ctx) }, t.writeManifest, t.recall} {
		if err := do(); err != nil {
			return err
		}
	}
	t.record.begun, t.record.page.Statement = true, t.problems.Statement
	t.watcher.Begun(t.Origin())
	t.report((*readers.Page).GoesOn)
	return nil
}

// recall finds the last evaluation on record, and the first of the same problems.
func (t *Trainer) recall() error {
	before, err := t.record.evaluations()
	if err != nil {
		return err
	}
	first := t.first
	if t.first, t.last = nil, nil; len(before) == 0 {
		return nil
	}
	t.last = &before[len(before)-1]
	t.first = &before[slices.IndexFunc(before, func(e Evaluation) bool { return e.SameProblems(t.last) })]
	if !t.origin.past.SameJudge(t.custom.names()) {
		t.first.Judged = stats.Judged{} // nothing that this judge could be compared with
	}
	if t.first != t.last {
		t.last.Change = stats.Compare(t.first.Judged, t.last.Judged)
	} else if first != nil && first.Step == t.first.Step {
		t.last = first
	}
	if first != nil && first.Step == t.first.Step {
		t.first = first // which has completions, too
	}
	return nil
}

// append adds a line to a log, and says of one that could not be written that the run can be gone on with.
func (r *record) append(name string, v any) error {
	if err := r.Append(name, v); err != nil {
		return r.Unwritten(err, "")
	}
	return nil
}

// conclude writes a step down, judges it and tells of it.
func (t *Trainer) conclude(m Metrics, timing Timing, groups []Group) error {
	e := evidence(m, timing, t.judge())
	e.Asks, e.Peak, e.Updates = t.cfg.JudgeURL != "", t.learner.Peak(), t.learner.Adam.Steps()
	e.Steps = t.cfg.MaxSteps - t.start // a fork's steps are its own
	advice := t.advisor.OnStep(e)
	t.pilot.Heard(e, advice)
	if err := t.record.step(m, timing, groups, advice); err != nil {
		t.broken = fmt.Errorf("record: %w", err) // half of a step is on record
		return t.broken
	}
	t.watcher.StepDone(m, timing, advice)
	t.report((*readers.Page).Follow)
	for _, a := range advice {
		if a.Fatal {
			return ended(a)
		}
	}
	return nil
}

func (r *record) step(m Metrics, t Timing, groups []Group, advice []Advice) error {
	if r == nil {
		return nil
	}
	w := rollouts.NewWriter(r.cfg, m.Step, r.Log)
	for _, g := range groups {
		for k, s := range g.Rollouts {
			line := rollouts.Line{Step: m.Step, Group: s.Group, Sample: s.Sample, Problem: g.Problem.ID, Prompt: g.Prompt.Tokens,
				Tokens: s.Tokens, LogProbs: s.LogProbs, Text: s.Text, Finish: s.Finish, Score: s.Score, Advantage: g.Advantages[k],
				Conversation: s.Conversation}
			if g.tokens != nil {
				line.Advantages = g.tokens[k]
			}
			w.Add(line)
		}
	}
	if err := w.End(); err != nil {
		return r.Unwritten(err, "")
	}
	if err := r.append(metricsFile, m); err != nil {
		return err
	}
	if err := r.append(trainLogFile, t); err != nil {
		return err
	}
	return r.advice(m.Step, advice)
}

func (r *record) advice(step int, advice []Advice) error {
	for _, a := range advice {
		if err := r.append(runLogFile, struct {
			Step int `json:"step"`
			Advice
		}{step, a}); err != nil {
			return err
		}
	}
	return nil
}

// evaluationKind tells the lines of evaluations from those of steps.
const evaluationKind = "evaluation"

func (r *record) evaluation(e Evaluation, advice []Advice) error {
	if r == nil {
		return nil
	}
	if err := r.append(metricsFile, struct {
		Kind string `json:"kind"`
		Evaluation
	}{evaluationKind, e}); err != nil {
		return err
	}
	if err := r.append(judgedFile, e.Judged); err != nil {
		return err
	}
	return r.advice(e.Step, advice)
}

// evaluations are those of the run so far, in the order in which they were made.
func (r *record) evaluations() ([]Evaluation, error) {
	all, err := jsonl.OfKind[Evaluation](r.File(metricsFile), evaluationKind)
	if err != nil || len(all) == 0 {
		return all, rundir.Unread(err, r.Path)
	}
	judged, err := provenance.JudgedOf(r.Path)
	for i := range all {
		all[i].Judged = judged[all[i].Step]
	}
	return all, err
}

// report draws the run as a page. A run is not ended because it cannot be drawn.
func (t *Trainer) report(draw func(*readers.Page) error) {
	if t.record == nil {
		return
	}
	if err := draw(t.record.page); err != nil {
		t.watcher.Warn(err.Error())
	}
}
