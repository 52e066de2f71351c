package lora

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"

	"github.com/seed-7879b91d/grpo/internal/precondition"
	"github.com/seed-7879b91d/grpo/internal/splitmix"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
)

// Adapter is a LoRA adapter: a layout and its values.
type Adapter struct {
	*Layout
	Values []float32 // [Layout.Len()]
}

// New makes an adapter of zeros. It has no effect, and no gradient: call Init before training.
func New(l *Layout) *Adapter {
	precondition.NotNil("lora.New", "l", l)
	return &Adapter{Layout: l, Values: make([]float32, l.Len())}
}

// Init sets A to uniform random numbers in ±1/√in and B to zero, so that the correction is zero at first.
// Each number depends on the seed, the name of its tensor and its index there, and on nothing else.
func (a *Adapter) Init(seed uint64) {
	clear(a.Values)
	for _, e := range a.Entries() {
		if e.Side == B {
			continue
		}
		key := tensorKey(seed, e.Name)
		bound := float32(1 / math.Sqrt(float64(e.Cols)))
		for i, values := 0, a.Of(e); i < len(values); i++ {
			values[i] = uniform(key, uint64(i)) * bound
		}
	}
}

// Of is the part of Values that belongs to an entry.
func (a *Adapter) Of(e Entry) []float32 { return a.Values[e.Offset : e.Offset+e.Len()] }

// checkLen validates the length of a slab.
func (l *Layout) checkLen(slab []float32) error {
	if len(slab) != l.size {
		return fmt.Errorf("lora: found %d numbers, expected %d, as many as the layout has", len(slab), l.size)
	}
	return nil
}

// checkFinite returns an error if a value is infinite or NaN.
func (a *Adapter) checkFinite() error {
	for _, e := range a.entries {
		for i, x := range a.Of(e) {
			if x-x != 0 {
				return fmt.Errorf("lora: %s: element %d is %v, expected finite numbers", e.Name, i, x)
			}
		}
	}
	return nil
}

// Hash is the SHA-256 of all values, in the order of the slab and without its padding, in hexadecimal. It panics if the length of
// Values is not that of the layout.
func (a *Adapter) Hash() string {
	if err := a.checkLen(a.Values); err != nil {
		panic(err.Error())
	}
	h := sha256.New()
	for _, e := range a.Entries() {
		_ = tensorfile.WriteFloat32s(h, a.Of(e)) // a hash takes everything
	}
	return hex.EncodeToString(h.Sum(nil))
}

// tensorKey starts the sequence of draws that belongs to one tensor.
func tensorKey(seed uint64, name string) uint64 {
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64([]byte(name+"\x00"), seed))
	return binary.LittleEndian.Uint64(sum[:])
}

// uniform is draw i of the sequence, in (−1, 1), symmetric about zero: SplitMix64 with i as its counter.
func uniform(key, i uint64) float32 {
	z := splitmix.At(key, i)
	// The middle of one of 2²⁴ equal intervals: an odd number over 2²⁴, which float32 represents exactly.
	return float32(int64(z>>40)*2+1-1<<24) / (1 << 24)
}
