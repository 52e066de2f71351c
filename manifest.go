package grpo

import (
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/judging"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/kernels"
)

// Resolve builds a configuration as the command line does. With neither preset nor file, the key=value words change the
// settings of the run that run_dir, resume or init_from names among them, or else the default preset.
func Resolve(s configs.Source) (*configs.Config, error) { return provenance.Resolve(s) }

// checkParts compares model, data and settings with the ones that the checkpoint recorded.
func (t *Trainer) checkParts() (err error) {
	if t.parts, err = provenance.FingerprintInputs(t.cfg, t.problems, t.judging.Sandbox.Kind != judging.CallerGrader); err != nil {
		return err
	}
	t.parts["model"] = t.policy.print
	return t.origin.past.CheckParts(t.cfg, t.origin.state.Parts, t.parts, t.watcher.Warn)
}

// writeManifest records what the run is made of. For a resumed run it first warns of what changed.
func (t *Trainer) writeManifest() (err error) {
	if _, err = kernels.Keep(t.backend, t.cfg.Order); err != nil { // another user of the backend may have changed it since Open
		return err
	}
	m := provenance.Manifest{
		Backend: t.backend.Name(), Precision: t.cfg.Precision, Order: t.cfg.Order, Sandbox: t.judging.Sandbox, Own: t.custom.names(),
		Problems: t.pool.Len(), HeldOut: len(t.HeldOut()), LeftOut: t.problems.Both, Seed: t.cfg.Seed,
		KV: t.sampling.engine.Plan.String(), Parameters: t.policy.TrainableCount(),
	}
	for _, set := range t.problems.Sets {
		m.Datasets = append(m.Datasets, set.Manifest())
	}
	start := provenance.Start{After: t.step, Order: t.backend.Order(), Parts: t.parts, Own: t.custom.names()}
	t.ledger, err = provenance.Open(t.record.Dir, t.cfg, t.origin.past, m, start, t.policy.Dir, t.watcher.Warn)
	if err == nil {
		t.closers = append(t.closers, t.ledger)
	}
	return err
}
