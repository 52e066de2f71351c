package model

import (
	"fmt"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/precondition"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model/internal/adapted"
	"github.com/seed-7879b91d/grpo/model/internal/asked"
	"github.com/seed-7879b91d/grpo/model/internal/ops"
)

// Served is an adapter in a decoder: a copy, which later training of the original does not change.
type Served struct {
	d           *Decoder // nil once withdrawn
	corrections []*kernels.LowRank
}

// Serve copies an adapter, of any rank, scale and targets, to the decoder, for rows of later runs. Such rows get the same bits as from
// a policy with the adapter attached.
func (d *Decoder) Serve(a *lora.Adapter) (*Served, error) {
	precondition.NotNil("model.Decoder.Serve", "a", a)
	switch {
	case d.Adapters == 0:
		return nil, fmt.Errorf("model: the decoder has no room for adapters")
	case d.served == d.Adapters:
		return nil, badinput.Errorf("all %d slots for adapters are taken; unload one, or allow for more", d.Adapters)
	}
	if err := asked.Adapter(a, d.p.LoRADims(), false); err != nil {
		return nil, err
	}
	corrections, err := adapted.Corrections(d.p.b, a, d.p.Options.AdapterPrecision.Trained())
	if err != nil {
		return nil, fmt.Errorf("adapter: %w", err)
	}
	low := 0
	for _, c := range corrections {
		if c != nil {
			low = max(low, c.A.Rows())
		}
	}
	if err := d.growLow(low * d.Rows); err != nil {
		return nil, fmt.Errorf("adapter: %w", err)
	}
	d.served++
	return &Served{d: d, corrections: corrections}, d.p.b.Sync()
}

// Withdraw removes an adapter, which no later run may use. The garbage collector frees its memory.
func (d *Decoder) Withdraw(s *Served) {
	if s == nil || s.d != d {
		panic("model: the adapter is not this decoder's, or has been withdrawn")
	}
	d.dropAdapters()
	s.d, s.corrections = nil, nil
	d.served--
}

// growLow grows the buffer for the intermediate A·x of adapters.
func (d *Decoder) growLow(floats int) error {
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

// dropAdapters drops the references to adapters of the last run, so that withdrawn ones can be collected.
func (d *Decoder) dropAdapters() {
	run := &d.in.run
	clear(run.Stretches)
	run.Stretches = run.Stretches[:0]
}

// loadAdapters sets the adapters of the next run: one stretch for neighbouring sequences with the same adapter.
func (d *Decoder) loadAdapters(r *Rows) error {
	run := &d.in.run
	d.dropAdapters()
	if err := asked.Rows(r.Tokens, r.Positions, r.Starts, r.Tables, d.TableStride, len(r.Adapters)); err != nil {
		return err
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
