package model

import (
	"cmp"

	"github.com/seed-7879b91d/grpo/internal/nf4"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model/internal/adapted"
	"github.com/seed-7879b91d/grpo/model/internal/arch"
	"github.com/seed-7879b91d/grpo/model/internal/asked"
	"github.com/seed-7879b91d/grpo/model/internal/consistent"
)

// Sketch is Open on a ledger: it makes the same allocations, but reads no weights. The policy serves to plan memory and
// cannot be run. An adapter attached to it needs no values.
func Sketch(l *kernels.Ledger, dir string, trainable bool, o Options) (*Policy, error) {
	cfg, err := ReadConfig(dir)
	if err != nil {
		return nil, err
	}
	set, err := tensorfile.OpenModel(dir)
	if err != nil {
		return nil, err
	}
	defer set.Close()
	if err := consistent.Check(cfg, set); err != nil {
		return nil, err
	}
	if trainable && o.Quantise != AsStored {
		return nil, errQuantisedWhole
	}
	if trainable {
		o = o.resolved(l, func() bool { return false })
		m, err := newMasters(l, cfg, o)
		if err != nil {
			return nil, err
		}
		return newPolicy(l, cfg, m.weights, m, o), nil
	}
	o = o.resolved(l, func() bool { return consistent.OnlyBF16(cfg, set) })
	if err := asked.Integers(l, set, o.Precision == I16, o.Quantise == NF4); err != nil {
		return nil, err
	}
	w, err := newWeights(l, cfg, o.Precision)
	if err != nil {
		return nil, err
	}
	_, describe := o.Quantise.readers()
	for _, s := range w.order {
		if err := w.sketch(s, set, describe); err != nil {
			return nil, err
		}
	}
	return newPolicy(l, cfg, w, noTrainable{}, o), nil
}

// Again sets other MaxRows and Recompute in a sketch and drops its programs; weights, adapter and graphs stay.
func (p *Policy) Again(o Options) {
	p.closePrograms()
	p.MaxRows, p.Recompute, p.rows, p.inputs, p.logp = cmp.Or(o.MaxRows, UsualRows), o.Recompute, 0, inputs{}, input{}
}

// sketch makes the operand of a weight from the names and encodings of its tensors.
func (w *weights) sketch(s arch.Slot, set *tensorfile.Set, describe nf4.Reader) error {
	if s.Vector {
		return w.addVector(s, nil)
	}
	parts := make([]stored, len(s.Parts))
	for i, p := range s.Parts {
		var err error
		if parts[i], err = readPart(set, s, p, describe); err != nil {
			return err
		}
		parts[i].tensor.Bytes = nil // only names and shapes matter
	}
	return w.loadMatrix(s, parts)
}

// Work describes the largest operations of the policy's programs, for sequences of up to longest tokens.
func (p *Policy) Work(longest int, train bool) kernels.Work {
	_, whole := p.trained.(*masters)
	low := 0
	if a, ok := p.trained.(*adapter); ok {
		low = a.Config.Rank * adapted.MostTargets
	}
	return kernels.Work{Heads: p.Heads, Hidden: p.Hidden, Intermediate: p.Intermediate, Vocab: p.Vocab,
		Rows: max(p.MaxRows, longest), Longest: longest, Low: low, Gradients: train, Whole: train && whole, Trained: p.TrainableCount()}
}
