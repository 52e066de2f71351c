package grpo

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/seed-7879b91d/grpo/internal/autopilot"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/readers"
	"github.com/seed-7879b91d/grpo/internal/rundir"
	"github.com/seed-7879b91d/grpo/internal/snapshot"
	"github.com/seed-7879b91d/grpo/internal/stats"
	"github.com/seed-7879b91d/grpo/reward"
)

// startPilot starts the autopilot, or resumes the one of the checkpoint.
func (t *Trainer) startPilot() error {
	t.completions = t.cfg.CompletionsPerPrompt
	switch {
	case !t.cfg.Autopilot:
		t.pilot = nil
		return nil
	case t.record == nil:
		return badinput.Errorf("autopilot: it goes back to checkpoints, and this trainer is unrecorded; leave one of them out")
	}
	own := autopilot.Tunable(t.cfg, t.judging.Judge() != nil)
	t.pilot = cmp.Or(t.pilot, autopilot.New(own))
	t.pilot.Resume(own)
	if _, err := snapshot.Parse(t.record.Checkpoint(t.pilot.Anchor)); t.pilot.Anchor >= 0 && err != nil {
		t.watcher.Warn(fmt.Sprintf("autopilot: no checkpoint of step %d any more; it goes back to step %d instead", t.pilot.Anchor, t.step))
		t.pilot.Anchor = t.step
	}
	t.putInForce()
	return nil
}

// putInForce applies the autopilot's settings. The caller makes sure that nothing is being scored, as the judge changes.
func (t *Trainer) putInForce() {
	p := t.pilot
	t.learner.SetRate(p.Value(autopilot.Rate))
	t.sampling.train.Temperature = float32(p.Value(autopilot.Temperature))
	t.learner.Recipe.Adjust(p.Value(autopilot.Temperature), p.Value(autopilot.Overlong), t.cfg.OverlongBuffer)
	t.completions = int(p.Value(autopilot.Completions))
	if _, weighed := p.Own[autopilot.Format]; weighed {
		t.judging.Judge().WeighFormat(p.Value(autopilot.Format))
	}
}

// steer asks the autopilot between two steps, and carries out what it decides.
func (t *Trainer) steer(ctx context.Context) (err error) {
	if t.pilot == nil {
		return nil
	}
	var found stats.Judged
	switch t.pilot.NextAction(t.step, t.step == t.cfg.MaxSteps) {
	case autopilot.NoAction:
		return nil
	case autopilot.Measure:
		if found, err = t.measure(ctx); err != nil {
			return fmt.Errorf("step %d: autopilot: measure: %w", t.step, err)
		}
	}
	deeds, back := t.pilot.Decide(t.step, found)
	var failed error // of the grader; returned last, when the run is in a consistent state
	if t.pilot.Fresh && t.ahead != nil {
		failed, t.ahead = t.ahead.abandon(), nil
	}
	var sums map[string]string // of the checkpoint that was rolled back to
	if back >= 0 {
		sums, err = t.goBack(back, deeds)
	}
	if t.pilot.Fresh { // else no setting changed, and rollouts sampled ahead may be in scoring
		t.putInForce()
	}
	for _, d := range deeds {
		err = errors.Join(err, t.record.append(autopilot.File, d))
		t.watcher.Warn(d.String())
	}
	if back >= 0 && err == nil { // records the rollback, so that a resumed run starts from it too
		err = t.writeState(t.record.Checkpoint(back), sums)
	}
	t.report((*readers.Page).Update)
	return errors.Join(err, failed)
}

// measure evaluates the policy on the problems that the autopilot keeps aside for this.
func (t *Trainer) measure(ctx context.Context) (found stats.Judged, err error) {
	a, err := t.attempt(ctx, t.checks, 1, 0)
	found.Step = t.step
	for _, g := range a.Groups {
		score := g.Rollouts[0].Score
		if score.Excluded == reward.ExcludedInfra {
			continue
		}
		value := score.Components.Correct
		if t.custom.grader != nil { // the caller's grader need not set Correct
			value = score.Reward
		}
		found.Problems, found.Correct = append(found.Problems, g.Problem.ID), append(found.Correct, value)
	}
	return found, err
}

// goBack rolls the run back to a checkpoint, except for the autopilot's own state, and returns the checksums of the
// checkpoint's files. Records of later steps are set aside.
func (t *Trainer) goBack(step int, deeds []autopilot.Decision) (map[string]string, error) {
	dir := t.record.Checkpoint(step)
	s, err := snapshot.Read(dir)
	if err != nil {
		return nil, err
	}
	steps, err := jsonl.OfKind[Metrics](t.record.File(metricsFile), "")
	if err != nil {
		return nil, err
	}
	for _, m := range steps {
		if m.Step > step {
			deeds[0].Undone = append(deeds[0].Undone, autopilot.UndoneStep{Step: m.Step, Reward: m.MeanReward, KL: m.Drift.KL2})
		}
	}
	t.turn.Lock()
	err = restore(dir, t.policy, t.learner.Adam)
	t.turn.Unlock()
	if err != nil {
		return nil, err
	}
	if _, err = t.pool.Restore(s.Cursor); err != nil {
		return nil, err
	}
	t.step, t.evaluated, t.advisor, t.broken = s.Step, s.Evaluated, s.Advisor, nil
	aside, err := t.record.RollBack(rundir.Point{Step: step, Logs: s.Logs}, autopilot.File)
	if err != nil {
		return nil, err
	}
	if aside != "" {
		t.watcher.Warn(fmt.Sprintf("checkpoints and log lines after step %d were moved to %s", step, aside))
	}
	return s.Checksum, errors.Join(t.ledger.RecordRollback(step), t.recall())
}

// Autopilot summarises what the autopilot did so far, "" if there is none.
func (t *Trainer) Autopilot() string { return t.pilot.Summary() }
