package bench

import (
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
)

// chooseRecompute sets recompute. For auto it takes the fastest choice whose planned memory fits into what is free.
func (m *Model) chooseRecompute(b kernels.Backend, planned func() (int64, error)) error {
	if m.Recompute != "auto" {
		if err := m.Options.Recompute.Set(m.Recompute); err != nil {
			return err
		}
		_, err := planned()
		return err
	}
	room, known := b.Free()
	choices := []model.Recompute{model.RecomputeNone, model.RecomputeCheap, model.RecomputeBlocks}
	if !known {
		choices = choices[1:2]
	}
	for _, choice := range choices {
		m.Options.Recompute = choice
		bytes, err := planned()
		if err != nil {
			return err
		}
		if bytes < room.Bytes/100*95 {
			return nil
		}
	}
	return nil // the most frugal choice
}

// checkRecompute refuses an unknown choice.
func (m *Model) checkRecompute() error {
	if err := new(model.Recompute).Set(m.Recompute); err != nil && m.Recompute != "auto" {
		return badinput.Errorf("--recompute: found %q, expected auto, none, cheap or blocks", m.Recompute)
	}
	return nil
}

// plannedBytes is the memory of a training step, planned with a policy on a ledger.
func plannedBytes(l *kernels.Ledger, p *model.Policy, tokens int) (int64, error) {
	if _, _, err := p.Prepare(tokens); err != nil {
		return 0, err
	}
	bytes, host := l.Total()
	return int64(bytes + host + l.WorkSize(p.Work(tokens, true))), nil
}
