package adapted

import (
	"bytes"

	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model/internal/ops"
)

// Corrections brings an adapter to a backend, to be read only: what it has for each packed linear, by its number.
func Corrections(b kernels.Backend, a *lora.Adapter) ([]*ops.Correction, error) {
	all := make([]*ops.Correction, len(Linears)*a.Dims.Layers)
	for layer := range a.Dims.Layers {
		for _, l := range Linears {
			s, err := ShareOf(a.Layout, layer, l)
			if err != nil {
				return nil, err
			}
			if s == nil {
				continue
			}
			if all[Number(layer, l.Slot)], err = s.bring(b, a); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

func (s *Share) bring(b kernels.Backend, a *lora.Adapter) (c *ops.Correction, err error) {
	c = &ops.Correction{Scale: a.Scale(), Windows: s.Windows, B: make([]kernels.Matrix, len(s.B))}
	if c.A, err = matrix(b, a, s.A); err != nil {
		return nil, err
	}
	for i, e := range s.B {
		if c.B[i], err = matrix(b, a, e); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func matrix(b kernels.Backend, a *lora.Adapter, e lora.Entry) (kernels.Matrix, error) {
	m, err := b.NewMatrix(kernels.F32, e.Rows, e.Cols)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := tensorfile.WriteFloat32s(&text, a.Of(e)); err != nil {
		return nil, err
	}
	b.Load(m, 0, kernels.HostRows{Encoding: kernels.EncodedF32, Bytes: text.Bytes()})
	return m, nil
}
