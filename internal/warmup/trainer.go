package warmup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/footprint"
	"github.com/seed-7879b91d/grpo/internal/learning"
	"github.com/seed-7879b91d/grpo/internal/meter"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/readers"
	"github.com/seed-7879b91d/grpo/internal/recipe"
	"github.com/seed-7879b91d/grpo/internal/sources"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
)

// Trainer trains a warm-up and records it. It is not safe for concurrent use.
type Trainer struct {
	cfg     *configs.Config
	backend kernels.Backend
	watcher Watcher
	lang    *sources.Language
	print   provenance.Part // of the model
	full    bool            // all weights are trained
	policy  *model.Policy
	learner *learning.Learner
	memory  *footprint.Plan

	set     *set
	lessons methodData
	pool    *data.Pool // of the indices of training rows

	record    *record
	ledger    *provenance.Ledger
	parts     provenance.Parts
	origin    origin
	step      int
	evaluated int // the first step without an evaluation
	broken    error
	taught    *model.Datum // the shortest datum of the last step; nil: none
	closers   []io.Closer

	first, last *HeldOut
}

// methodData are what the methods differ in.
type methodData interface {
	// begin computes what rows are compared with. The policy has the weights that the run starts with.
	begin(ctx context.Context, t *Trainer) error
	// datums makes the training data of a step from these training rows, and sets metrics.
	datums(ctx context.Context, t *Trainer, rows []int, m *Metrics) ([]model.Datum, error)
	// evaluate measures held-out rows.
	evaluate(ctx context.Context, t *Trainer, rows []int) (HeldOut, error)
}

// Resolve makes the configuration of a warm-up, as on the command line: words that name a run change that run's own settings.
func Resolve(method string, s configs.Source) (*configs.Config, error) {
	return provenance.ResolveWarmup(method, s)
}

// Open opens a run on a backend, which the caller closes after Close. A run that resumes is restored from its checkpoint.
// Nothing is written before the first step, except that an empty run_dir makes a new directory.
func Open(ctx context.Context, cfg *configs.Config, b kernels.Backend, w Watcher) (*Trainer, error) {
	settings := *cfg
	t := &Trainer{cfg: &settings, backend: b, watcher: w, full: cfg.Train == "full"}
	if err := t.open(ctx); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// open checks the user's input before the model is loaded.
func (t *Trainer) open(ctx context.Context) (err error) {
	if !t.cfg.Warmup() {
		return provenance.CheckMethod(t.cfg, configs.SFT)
	}
	if err := t.openRecord(); err != nil {
		return err
	}
	if t.origin.checkpoint == "" {
		if err := provenance.CheckIntact(t.cfg.Adapter); err != nil {
			return err
		}
	}
	if t.lang, err = sources.OpenLanguage(ctx, t.cfg); err != nil {
		return err
	}
	if t.cfg.Adapter != "" {
		if err := footprint.CheckAdapter(t.cfg, t.lang.Shape.LoRADims()); err != nil {
			return err
		}
		if t.origin.checkpoint == "" {
			if err := provenance.CheckBase(t.cfg.Adapter, t.lang.Dir); err != nil {
				return err
			}
		}
	}
	if err = provenance.CheckIntact(t.lang.Dir); err != nil {
		return err
	}
	if t.print, err = provenance.FingerprintModel(t.lang.Dir); err != nil {
		return err
	}
	t.lang.TellUnread(t.cfg, t.watcher.Warn)
	if t.set, err = openSet(ctx, t.cfg, t.lang, t.watcher.Warn); err != nil {
		return err
	}
	if err := t.settleSteps(); err != nil {
		return err
	}
	run := footprint.Run{Config: t.cfg, Backend: t.backend, Dir: t.lang.Dir, MaxPrompt: t.set.longest, Trains: true, ScoringOnly: true}
	if t.memory, err = footprint.Estimate(run); err != nil {
		return err
	}
	if err := t.checkParts(); err != nil {
		return err
	}
	if err := t.load(ctx); err != nil {
		return err
	}
	t.lessons = &conversations{}
	if t.cfg.Method == configs.DPO {
		t.lessons = &preferences{}
	}
	return t.resume(ctx)
}

// load loads the model, with an adapter if one is trained, and the optimizer.
func (t *Trainer) load(ctx context.Context) (err error) {
	if t.policy, err = model.OpenContext(ctx, t.backend, t.lang.Dir, t.full, t.memory.Model); err != nil {
		return err
	}
	if !t.full {
		a, err := footprint.Adapter(t.cfg, t.policy.LoRADims())
		if err != nil {
			return err
		}
		if err := t.policy.Attach(a); err != nil {
			return err
		}
	}
	t.cfg.MaxRows = t.policy.MaxRows
	footprint.Record(t.cfg, t.policy.Options)
	if _, _, err := t.policy.Prepare(t.set.longest); err != nil {
		return err
	}
	if t.learner, err = learning.Open(t.cfg, t.backend, t.policy, recipe.Overrides{}); err != nil {
		return err
	}
	t.policy.Progress = t.watcher.Advance
	t.pool, err = data.NewPool(places(t.set.train), t.cfg.Seed, data.Difficulty{})
	return err
}

// places are the pool's entries for rows: their indices as IDs.
func places(n int) []data.Problem {
	all := make([]data.Problem, n)
	for i := range all {
		all[i].ID = fmt.Sprint(i)
	}
	return all
}

// Run trains to the last step, evaluating and saving when due. If it is interrupted, it saves the last complete step and
// returns the context's error. After a failed step the last good checkpoint stands.
func (t *Trainer) Run(ctx context.Context) error {
	if err := t.begin(ctx); err != nil {
		return err
	}
	err := t.run(ctx)
	if err == nil || errors.Is(err, ctx.Err()) {
		if serr := t.save(); serr != nil {
			err = serr
		}
	}
	t.report(func(p *readers.Page) error { return p.Finish(err) })
	return err
}

func (t *Trainer) run(ctx context.Context) error {
	for {
		if err := t.evaluateIfDue(ctx); err != nil {
			return fmt.Errorf("step %d: %w", t.step, err)
		}
		if n := t.cfg.SaveEvery; n > 0 && t.step > 0 && t.step%n == 0 {
			if err := t.save(); err != nil {
				return err
			}
		}
		if last := t.Steps(); last >= 0 && t.step >= last {
			return nil
		}
		if err := t.Step(ctx); err != nil {
			return err
		}
		if err := t.ledger.RecordHash(t.watcher.Warn); err != nil {
			return err
		}
	}
}

// Step takes one step and records it.
func (t *Trainer) Step(ctx context.Context) (err error) {
	if err := t.begin(ctx); err != nil {
		return err
	}
	watch, updates, cursor := meter.Start(), t.learner.Adam.Steps(), t.pool.Cursor()
	m := Metrics{Step: t.step + 1, LearningRate: t.learner.Rate(t.step + 1)}
	defer func() {
		if err == nil || t.step == m.Step {
			return
		}
		err = fmt.Errorf("step %d: %w", m.Step, err)
		if _, rerr := t.pool.Restore(cursor); rerr != nil || t.learner.Adam.Steps() != updates {
			t.broken = errors.Join(err, rerr) // the policy matches no step any more
		}
	}()
	// Pool -> rows -> datums. The pool is checkpointed: a resumed run sees the same rows.
	var rows []int
	for _, p := range t.pool.Take(t.rowsOf(t.step + 1)) {
		rows = append(rows, t.set.place(p.ID))
	}
	m.Epoch, m.Rows = t.pool.Epoch(), len(rows)
	t.watcher.Phase("train", t.set.sequences(rows))
	datums, err := t.lessons.datums(ctx, t, rows, &m)
	if err != nil {
		return err
	}
	// Datums -> gradients -> update.
	if err := t.update(ctx, datums, &m); err != nil {
		return err
	}
	// Update -> metrics, on record.
	t.step++
	timing := Timing{Step: m.Step, Total: watch.Total(), Memory: meter.PeakMemory()}
	timing.Train, timing.TrainSec = timing.Total, float64(m.Tokens)/timing.Total
	if err := t.record.step(m, timing); err != nil {
		t.broken = err
		return err
	}
	t.watcher.StepDone(m, timing)
	t.report((*readers.Page).UpdateIfDue)
	return nil
}

// update updates the policy once.
func (t *Trainer) update(ctx context.Context, datums []model.Datum, m *Metrics) error {
	m.Sequences = len(datums)
	u, err := t.learner.Update(ctx, datums, 1, m.LearningRate, true)
	if err != nil {
		return t.learner.Explain(err, t.cfg)
	}
	for i := range datums {
		if t.taught == nil || i == 0 || len(datums[i].Tokens) < len(t.taught.Tokens) {
			t.taught = &datums[i]
		}
	}
	if u.NonFinite != nil {
		culprits, err := t.learner.Culprits(ctx, datums)
		if err != nil {
			return err
		}
		if len(culprits) == len(datums) {
			if err := t.checkFinite(ctx); err != nil {
				return err
			}
		}
		t.watcher.Warn(fmt.Sprintf("step %d: no update: %v; the gradient of %d of its %d sequences is non-finite",
			m.Step, u.NonFinite, len(culprits), len(datums)))
	}
	m.took(u)
	m.Trained, err = t.policy.Hash()
	return err
}

// checkFinite fails if the policy has no finite log-probabilities any more. It is then neither saved nor evaluated.
func (t *Trainer) checkFinite(ctx context.Context) error {
	if t.taught == nil {
		return nil
	}
	sound, err := t.learner.IsFinite(ctx, *t.taught)
	if err == nil && !sound {
		err = t.learner.NonFiniteError(t.cfg)
		t.broken = err
	}
	return err
}

// settleSteps settles the number of steps, and the length of the schedule.
func (t *Trainer) settleSteps() error {
	steps := t.Steps()
	if t.cfg.Schedule != "constant" {
		if t.cfg.SchedulerTotalSteps == 0 {
			t.cfg.SchedulerTotalSteps = steps
		}
		if total := t.cfg.SchedulerTotalSteps; steps > total {
			return badinput.Errorf("scheduler_total_steps: the run has %d steps, but the learning rate is 0 after %d; "+
				"type scheduler_total_steps=%d, or schedule=constant", steps, total, steps)
		} else if t.cfg.WarmupSteps >= total {
			return badinput.Errorf("warmup_steps: found %d, expected less than the %d steps of the schedule",
				t.cfg.WarmupSteps, total)
		}
	}
	if done := t.origin.state.Step; done > steps {
		return badinput.Errorf("max_steps: %s has %d steps already, and the run only %d; type max_steps=%d or more, or more epochs",
			t.origin.checkpoint, done, steps, done)
	}
	return nil
}

// Steps is the last step of the run.
func (t *Trainer) Steps() int { return t.cfg.StepsOf(t.set.train) }

// rowsOf is the number of rows in a step; the last step has the rest of the last epoch.
func (t *Trainer) rowsOf(step int) int {
	per := t.cfg.RowsPerStep
	if t.cfg.Epochs == 0 {
		return per
	}
	return min(per, t.cfg.Epochs*t.set.train-(step-1)*per)
}

// StepsDone is the number of steps taken.
func (t *Trainer) StepsDone() int { return t.step }

// Settings are the settings of the run.
func (t *Trainer) Settings() *configs.Config { return t.cfg }

// HeldOutRows is the number of held-out rows.
func (t *Trainer) HeldOutRows() int { return len(t.set.rows) - t.set.train }

// Evaluations are the last evaluation, and the first on the same rows; nil if there is none.
func (t *Trainer) Evaluations() (first, last *HeldOut) { return t.first, t.last }

// Close closes what Open opened, except the backend.
func (t *Trainer) Close() error {
	var errs []error
	for _, c := range slices.Backward(t.closers) {
		errs = append(errs, c.Close())
	}
	t.closers = nil
	return errors.Join(errs...)
}
