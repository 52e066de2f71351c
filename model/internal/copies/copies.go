// Package copies has the copies of trained parameters that kernels read.
package copies

import (
	"fmt"
	"math"
	"slices"

	"github.com/seed-7879b91d/grpo/kernels"
)

// Set is a set of matrices that are copies of trained parameters, the masters, which are row-major in a slab. A copy in bf16 is rounded
// to nearest.
type Set struct {
	All     []Copy
	scratch kernels.Buffer // as large as the largest master
	read    []float32
	host    []float32
}

// Copy is one copy.
type Copy struct {
	Mat    kernels.Matrix
	Master kernels.Buffer
	Offset int // of Master in its slab
}

// Add adds a copy.
func (c *Set) Add(mat kernels.Matrix, master kernels.Buffer, offset int) {
	c.All = append(c.All, Copy{mat, master, offset})
}

// Allocate allocates the memory that Stale needs, once all copies are added.
func (c *Set) Allocate(b kernels.Backend) (err error) {
	largest := 0
	for _, m := range c.All {
		largest = max(largest, m.Master.Len())
	}
	c.scratch, err = b.Alloc(kernels.F32, largest)
	return err
}

// Publish updates the copies from their masters.
func (c *Set) Publish(b kernels.Backend) {
	for _, m := range c.All {
		b.Pack(m.Mat, 0, m.Master)
	}
}

// Stale compares a copy, from an index on, with the given masters, and returns the index in these of the first difference in bits, or −1.
// A matrix must be compared in ascending order of indices, from 0 on.
func (c *Set) Stale(b kernels.Backend, mat kernels.Matrix, from int, masters []float32) (int, error) {
	c.read = slices.Grow(c.read[:0], len(masters))[:len(masters)]
	if from == 0 {
		b.Unpack(c.scratch, mat)
	}
	if err := b.Download(c.read, c.scratch.Slice(from, from+len(masters))); err != nil {
		return 0, err
	}
	for i, v := range masters {
		want := math.Float32bits(v)
		if mat.DType() != kernels.F32 {
			want = uint32(kernels.BF16Bits(v)) << 16
		}
		if want != math.Float32bits(c.read[i]) {
			return i, nil
		}
	}
	return -1, nil
}

// HostBuffer is memory on the host for n numbers, which is reused by the next call.
func (c *Set) HostBuffer(n int) []float32 {
	c.host = slices.Grow(c.host[:0], n)[:n]
	return c.host
}

// Unpublished is the error about a stale copy.
func Unpublished(tensor, what string) error {
	return fmt.Errorf("%s was changed but not published: the sampler would read an older %s", tensor, what)
}
