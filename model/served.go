package model

import (
	"bytes"
	"fmt"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model/internal/ops"
)

// Served is an adapter as the rows of a decoder read it: the numbers that it had when it was handed over.
type Served struct {
	d           *Decoder // that has it; nil when it has been withdrawn
	corrections []*ops.Correction
}

// Serve takes a copy of an adapter, of whatever rank, scale and targets, for the rows of later runs. What is computed for such a row is
// what a policy computes that has the adapter attached, to the bit.
func (d *Decoder) Serve(a *lora.Adapter) (*Served, error) {
	switch {
	case d.Adapters == 0:
		return nil, fmt.Errorf("model: the decoder has no room for adapters")
	case d.taken == d.Adapters:
		return nil, badinput.Errorf("all places for adapters are taken, there are %d; unload one, or make room for more", d.Adapters)
	case a.Dims != d.p.LoRADims():
		return nil, badinput.Errorf("adapter for a model of sizes %+v, this one has %+v", a.Dims, d.p.LoRADims())
	}
	s := &Served{d: d, corrections: make([]*ops.Correction, len(groups)*a.Dims.Layers)}
	low := 0
	for layer := range a.Dims.Layers {
		for _, g := range groups {
			c, err := d.correction(a, layer, g)
			if err != nil {
				return nil, fmt.Errorf("adapter: %w", err)
			}
			if c != nil {
				s.corrections[linearNumber(layer, g.slot)] = c
				low = max(low, c.A.Rows())
			}
		}
	}
	if err := d.makeLow(low * d.Rows); err != nil {
		return nil, fmt.Errorf("adapter: %w", err)
	}
	d.taken++
	return s, d.p.b.Sync()
}

// Withdraw gives up an adapter, which no later run may name. Its memory is free at the next collection of garbage.
func (d *Decoder) Withdraw(s *Served) {
	if s.d != d {
		panic("model: the adapter is not this decoder's, or was withdrawn before")
	}
	d.forgetAdapters()
	s.d, s.corrections = nil, nil
	d.taken--
}

// correction brings what an adapter has for one packed linear to the backend; nil where that is nothing.
func (d *Decoder) correction(a *lora.Adapter, layer int, g group) (*ops.Correction, error) {
	s, err := shareOf(a.Layout, layer, g)
	if err != nil || s == nil {
		return nil, err
	}
	c := &ops.Correction{Scale: a.Scale(), Windows: s.windows}
	if c.A, err = d.matrix(a, s.a); err != nil {
		return nil, err
	}
	for _, e := range s.b {
		b, err := d.matrix(a, e)
		if err != nil {
			return nil, err
		}
		c.B = append(c.B, b)
	}
	return c, nil
}

func (d *Decoder) matrix(a *lora.Adapter, e lora.Entry) (kernels.Matrix, error) {
	m, err := d.p.b.NewMatrix(kernels.F32, e.Rows, e.Cols)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := tensorfile.WriteFloat32s(&text, a.Of(e)); err != nil {
		return nil, err
	}
	d.p.b.Load(m, 0, kernels.HostRows{Encoding: kernels.EncodedF32, Bytes: text.Bytes()})
	return m, nil
}

// makeLow makes room for what adapters have between their two matrices.
func (d *Decoder) makeLow(floats int) error {
	run := &d.in.run
	if run.Low != nil && run.Low.Len() >= floats {
		return nil
	}
	low, err := d.p.b.Alloc(kernels.F32, floats)
	if err != nil {
		return err
	}
	if run.Low != nil {
		d.p.b.Release(run.Low)
	}
	run.Low = low
	return nil
}

// forgetAdapters lets go of those of the last run, which would live on otherwise.
func (d *Decoder) forgetAdapters() {
	run := &d.in.run
	clear(run.Stretches)
	run.Stretches = run.Stretches[:0]
}

// loadAdapters makes the adapters of the rows those of the next run.
func (d *Decoder) loadAdapters(r *Rows) error {
	run := &d.in.run
	d.forgetAdapters()
	if n := len(r.Starts) - 1; len(r.Adapters) != 0 && len(r.Adapters) != n {
		return fmt.Errorf("model: %d adapters for %d runs of rows", len(r.Adapters), n)
	}
	for i, s := range r.Adapters {
		if s == nil {
			continue
		}
		if s.d != d {
			return fmt.Errorf("model: the adapter of run %d is not this decoder's, or has been withdrawn", i)
		}
		from, to := int(r.Starts[i]), int(r.Starts[i+1])
		if n := len(run.Stretches); n > 0 && r.Adapters[i-1] == s {
			run.Stretches[n-1].To = to
		} else {
			run.Stretches = append(run.Stretches, ops.Stretch{From: from, To: to, Corrections: s.corrections})
		}
	}
	return nil
}
