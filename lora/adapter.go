package lora

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/precondition"
	"github.com/seed-7879b91d/grpo/internal/splitmix"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
)

// Adapter is a LoRA adapter: a layout and its values. New and Load make one; the zero value has no layout and cannot be used.
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
// Each number depends on the seed, the name of its tensor and its index there, and on nothing else. It panics if the length of
// Values is not that of the layout.
func (a *Adapter) Init(seed uint64) {
	a.mustFit()
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

// Of is the part of Values that belongs to an entry of the layout. It is no copy: writing to it changes the adapter.
func (a *Adapter) Of(e Entry) []float32 {
	from, to := e.Offset, e.Offset+e.Len()
	if from < 0 || from > to || to > len(a.Values) {
		panic(fmt.Sprintf("lora: %q is values %d to %d, and the adapter has %d; expected an entry of its layout",
			e.Name, from, to, len(a.Values)))
	}
	return a.Values[from:to]
}

// checkFit returns an error if the adapter has no layout, or Values of another length.
func (a *Adapter) checkFit() error {
	if a == nil || a.Layout == nil {
		return badinput.Errorf("lora: the adapter has no layout; make it by lora.New, or read it by lora.Load")
	}
	return a.checkLen(a.Values)
}

// mustFit panics with the error of checkFit.
func (a *Adapter) mustFit() {
	if err := a.checkFit(); err != nil {
		panic(err.Error())
	}
}

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
	a.mustFit()
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
