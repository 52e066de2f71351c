package model

import (
	"math/rand/v2"

	"github.com/seed-7879b91d/grpo/internal/nf4"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model/internal/arch"
)

// randomRows is how many rows of a random matrix are drawn at a time.
const randomRows = 1024

// randomWeights makes weights for benchmarks: about normal with standard deviation 0.02, and norms
// of one.
func randomWeights(b kernels.Backend, cfg Config, seed uint64, o Options) (*weights, error) {
	w, err := newWeights(b, cfg, o.Precision)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(seed, 0x6770726f))
	for _, s := range w.order {
		if s.Vector {
			ones := make([]float32, s.Size())
			for i := range ones {
				ones[i] = 1 - cfg.Norm().Offset
			}
			err = w.addVector(s, ones)
		} else if o.Quantise == NF4 && s.Name != arch.Embedding && s.Name != cfg.HeadSlot() {
			err = w.loadMatrix(s, w.drawCodes(s, rng))
		} else {
			err = w.drawMatrix(s, rng)
		}
		if err != nil {
			return nil, err
		}
	}
	return w, nil
}

// drawMatrix fills a matrix with random bf16 numbers, some rows at a time to bound memory.
func (w *weights) drawMatrix(s arch.Slot, rng *rand.Rand) error {
	m, err := w.addMatrix(s, w.precision.Frozen())
	if err != nil {
		return err
	}
	if w.planned() {
		return w.b.Compress(m)
	}
	var rows []byte
	for row := 0; row < s.Rows(); row += randomRows {
		n := min(randomRows, s.Rows()-row)
		rows = arch.RandomBF16(rng, rows[:0], n*s.Cols)
		w.b.Load(m, row, kernels.HostRows{Encoding: kernels.EncodedBF16, Bytes: rows})
		if err := w.b.Sync(); err != nil {
			return err
		}
	}
	return w.b.Compress(m)
}

// planned reports whether the backend is a ledger, which only adds up memory: then no values are needed.
func (w *weights) planned() bool {
	_, ledger := w.b.(*kernels.Ledger)
	return ledger
}

// drawCodes draws the same numbers as drawMatrix, and quantises them to four bits.
func (w *weights) drawCodes(s arch.Slot, rng *rand.Rand) (parts []stored) {
	for _, p := range s.Parts {
		if w.planned() {
			parts = append(parts, stored{codes: nf4.OfShape(p.Rows, s.Cols)})
			continue
		}
		numbers := tensorfile.Tensor{Name: p.Tensor, Encoding: kernels.EncodedBF16, Shape: s.Shape(p),
			Bytes: arch.RandomBF16(rng, make([]byte, 0, 2*p.Rows*s.Cols), p.Rows*s.Cols)}
		parts = append(parts, stored{codes: nf4.OfTensor(numbers)})
	}
	return parts
}
