package model

import "github.com/seed-7879b91d/grpo/kernels"

// New makes a model with the initial weights of its architecture, to be trained from scratch. A tensor's values depend
// on the seed, its name and its shape alone.
func New(b kernels.Backend, cfg Config, seed uint64, o Options) (*Policy, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	if o.Quantise != AsStored {
		return nil, errQuantisedWhole
	}
	o = o.resolved(b, func() bool { return false })
	m, err := newMasters(b, cfg, o)
	if err != nil {
		return nil, err
	}
	for _, s := range m.order {
		if m.planned() {
			continue
		}
		b.Upload(m.master(s), cfg.Initial(s, seed))
		if err := b.Sync(); err != nil {
			return nil, err
		}
	}
	m.publish()
	return newPolicy(b, cfg, m.weights, m, o), b.Sync()
}
