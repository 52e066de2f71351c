package grpo

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/autopilot"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/precondition"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/readers"
	"github.com/seed-7879b91d/grpo/internal/rollouts"
	"github.com/seed-7879b91d/grpo/internal/rundir"
	"github.com/seed-7879b91d/grpo/internal/stats"
)

// The files of a run directory that grow line by line.
const (
	metricsFile  = "metrics.jsonl"   // Metrics and Evaluations: the same bytes in every run of one configuration
	trainLogFile = "train_log.jsonl" // Timing
	runLogFile   = "run_log.jsonl"   // Advice

	judgedFile = provenance.JudgedFile
)

// logFiles are the logs that every run has; the files of completions depend on settings (rollouts.Logs).
var logFiles = []string{metricsFile, trainLogFile, runLogFile, judgedFile, rundir.CheckpointLog}

// record writes the logs of a run to its directory. A nil record writes nothing.
type record struct {
	*rundir.Dir
	cfg   *configs.Config
	log   *logbook
	page  *readers.Page
	begun bool
}

// begin prepares the run directory before the first write. Log lines and checkpoints that are later than the checkpoint
// that the run resumes from are set aside.
func (t *Trainer) begin(ctx context.Context) error {
	precondition.NotNil("grpo.Trainer", "ctx", ctx)
	switch {
	case t.closed:
		return errClosed
	case t.broken != nil:
		return fmt.Errorf("a step was not finished; resume from the last checkpoint: %w", t.broken)
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
		return rundir.WithOtherDirHint(err)
	}
	if aside != "" {
		t.watcher.Warn(fmt.Sprintf("checkpoints and log lines after step %d were moved to %s", t.step, aside))
	}
	for _, do := range []func() error{func() error { return t.problems.WriteCopies(ctx) }, t.writeManifest, t.recall} {
		if err := do(); err != nil {
			return err
		}
	}
	t.record.begun, t.record.page.Statement = true, t.problems.Statement
	t.watcher.Begun(t.Origin())
	t.report((*readers.Page).Update)
	return nil
}

// recall finds the last recorded evaluation, and the first one on the same problems, to compare later ones with.
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
		t.first.Judged = stats.Judged{} // another judge gave these verdicts: they cannot be compared with this one's
	}
	if t.first != t.last {
		t.last.Change = stats.Compare(t.first.Judged, t.last.Judged)
	} else if first != nil && first.Step == t.first.Step {
		t.last = first
	}
	if first != nil && first.Step == t.first.Step {
		t.first = first // the one in memory has completions, too
	}
	return nil
}

// append adds a line to a log. Its error tells the user that the run can be resumed.
func (r *record) append(name string, v any) error {
	if err := r.Append(name, v); err != nil {
		return r.WithResumeHint(err, "")
	}
	return nil
}

// conclude records a step, has the advisor judge it and tells the watcher.
func (t *Trainer) conclude(m Metrics, timing Timing, groups []Group) error {
	e := evidence(m, timing, t.rewardKind())
	e.ModelJudged, e.Peak, e.Updates = t.cfg.JudgeURL != "", t.learner.PeakRate(), t.learner.Adam.Steps()
	e.Steps = t.cfg.MaxSteps - t.start // a fork does not count the steps of its parent
	advice := t.advisor.OnStep(e)
	t.pilot.Observe(e, advice)
	if err := t.record.step(m, timing, groups, advice); err != nil {
		t.broken = fmt.Errorf("record: %w", err) // the step may be recorded in part
		return t.broken
	}
	t.watcher.StepDone(m, timing, advice)
	t.report((*readers.Page).UpdateIfDue)
	for _, a := range advice {
		if a.Fatal {
			return fatalError(a)
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
		return r.WithResumeHint(err, "")
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

// evaluationKind marks the lines of metrics.jsonl that are evaluations; those of steps have no kind.
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

// evaluations reads the evaluations of the run so far, in order.
func (r *record) evaluations() ([]Evaluation, error) {
	all, err := jsonl.OfKind[Evaluation](r.File(metricsFile), evaluationKind)
	if err != nil || len(all) == 0 {
		return all, rundir.WithContinueHint(err, r.Path)
	}
	judged, err := provenance.JudgedOf(r.Path)
	for i := range all {
		all[i].Judged = judged[all[i].Step]
	}
	return all, err
}

// report updates the page of the run. A failure is only a warning: it must not end the run.
func (t *Trainer) report(draw func(*readers.Page) error) {
	if t.record == nil {
		return
	}
	if err := draw(t.record.page); err != nil {
		t.watcher.Warn(err.Error())
	}
}
