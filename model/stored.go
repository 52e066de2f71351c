package model

import (
	"github.com/seed-7879b91d/grpo/internal/nf4"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model/internal/arch"
)

// stored is a part of a weight as stored in the model's files: numbers, or 4-bit codes.
type stored struct {
	tensor tensorfile.Tensor
	codes  *nf4.Matrix // nil: numbers
}

// readParts reads and checks the parts of a slot.
func readParts(set *tensorfile.Set, s arch.Slot, codes nf4.Reader) ([]stored, error) {
	parts := make([]stored, len(s.Parts))
	for i, p := range s.Parts {
		var err error
		if parts[i], err = readPart(set, s, p, codes); err != nil {
			return nil, err
		}
		if parts[i].codes == nil {
			if err := tensorfile.CheckFinite(parts[i].tensor); err != nil {
				return nil, err
			}
		}
	}
	return parts, nil
}

// readPart finds one part, without checking its numbers; codes reads 4-bit matrices.
func readPart(set *tensorfile.Set, s arch.Slot, p arch.Part, codes nf4.Reader) (part stored, err error) {
	if !s.Vector {
		m, quantised, err := codes(set, p.Tensor, p.Rows, s.Cols)
		if quantised || err != nil {
			return stored{codes: m}, err
		}
	}
	part.tensor, err = set.Tensor(p.Tensor, s.Shape(p)...)
	return part, err
}

// encoding is the encoding of a part's numbers, of codes that of the decoded ones.
func (p stored) encoding() kernels.Encoding {
	if p.codes != nil {
		return p.codes.Type
	}
	return p.tensor.Encoding
}

// numbers are the numbers of a part, with codes decoded.
func (p stored) numbers() kernels.HostRows {
	if p.codes == nil {
		return kernels.HostRows{Encoding: p.tensor.Encoding, Bytes: p.tensor.Bytes}
	}
	return kernels.HostRows{Encoding: p.codes.Type, Bytes: p.codes.Encode()}
}

// allCodes are the codes of all parts, or nil if some part has numbers.
func allCodes(parts []stored) []kernels.Quantised {
	all := make([]kernels.Quantised, len(parts))
	for i, p := range parts {
		if p.codes == nil {
			return nil
		}
		all[i] = p.codes.Quantised
	}
	return all
}

// floats are the values of parts, one after the other.
func floats(parts []stored) []float32 {
	var values []float32
	for _, p := range parts {
		n := p.numbers()
		more := make([]float32, len(n.Bytes)/n.Encoding.Size())
		tensorfile.Widen(more, n.Encoding, n.Bytes)
		values = append(values, more...)
	}
	return values
}
