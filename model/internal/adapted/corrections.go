package adapted

import (
	"bytes"
	"encoding/binary"

	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/lora"
)

// Corrections uploads an adapter to a backend, in read-only matrices of type t: the share of each packed linear, by its number.
func Corrections(b kernels.Backend, a *lora.Adapter, t kernels.DType) ([]*kernels.LowRank, error) {
	all := make([]*kernels.LowRank, len(Linears)*a.Dims.Layers)
	for layer := range a.Dims.Layers {
		for _, l := range Linears {
			s, err := ShareOf(a.Layout, layer, l)
			if err != nil {
				return nil, err
			}
			if s == nil {
				continue
			}
			if all[LinearIndex(layer, l.Slot)], err = s.bring(b, a, t); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

func (s *Share) bring(b kernels.Backend, a *lora.Adapter, t kernels.DType) (c *kernels.LowRank, err error) {
	c = &kernels.LowRank{Scale: a.Scale(), Windows: s.Windows, B: make([]kernels.Matrix, len(s.B))}
	if c.A, err = matrix(b, a, s.A, t); err != nil {
		return nil, err
	}
	for i, e := range s.B {
		if c.B[i], err = matrix(b, a, e, t); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func matrix(b kernels.Backend, a *lora.Adapter, e lora.Entry, t kernels.DType) (kernels.Matrix, error) {
	m, err := b.NewMatrix(t, e.Rows, e.Cols)
	if err != nil {
		return nil, err
	}
	if t != kernels.F32 {
		narrow := make([]byte, 0, 2*e.Len())
		for _, x := range a.Of(e) {
			narrow = binary.LittleEndian.AppendUint16(narrow, kernels.BF16Bits(x))
		}
		b.Load(m, 0, kernels.HostRows{Encoding: kernels.EncodedBF16, Bytes: narrow})
		return m, nil
	}
	var text bytes.Buffer
	if err := tensorfile.WriteFloat32s(&text, a.Of(e)); err != nil {
		return nil, err
	}
	b.Load(m, 0, kernels.HostRows{Encoding: kernels.EncodedF32, Bytes: text.Bytes()})
	return m, nil
}
