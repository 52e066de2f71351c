// Package copies has the matrices that kernels read in place of trained parameters.
package copies

import (
	"fmt"
	"math"
	"slices"

	"github.com/seed-7879b91d/grpo/kernels"
)

// Set is matrices in place of trained parameters, which lie row by row in a slab, the masters. A matrix of bf16 has the nearest
// numbers.
type Set struct {
	All     []Copy
	scratch kernels.Buffer // of the largest
	read    []float32
	host    []float32
}

// Copy is one of them.
type Copy struct {
	Mat    kernels.Matrix
	Master kernels.Buffer
	Offset int // of Master in its slab
}

// Add has one more.
func (c *Set) Add(mat kernels.Matrix, master kernels.Buffer, offset int) {
	c.All = append(c.All, Copy{mat, master, offset})
}

// Allocate makes the room that Stale needs, when all copies are known.
func (c *Set) Allocate(b kernels.Backend) (err error) {
	largest := 0
	for _, m := range c.All {
		largest = max(largest, m.Master.Len())
	}
	c.scratch, err = b.Alloc(kernels.F32, largest)
	return err
}

// Publish shows the kernels the masters as they are now.
func (c *Set) Publish(b kernels.Backend) {
	for _, m := range c.All {
		b.Pack(m.Mat, 0, m.Master)
	}
}

// Stale finds the first number of a matrix, from one on, whose bits are not those of these masters, or −1. Of one matrix all are asked for
// in order, some at a time.
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

// Room is memory on the host for so many numbers, the same each time.
func (c *Set) Room(n int) []float32 {
	c.host = slices.Grow(c.host[:0], n)[:n]
	return c.host
}

// Unpublished is the error of a copy that is stale.
func Unpublished(tensor, what string) error {
	return fmt.Errorf("%s was changed but not published: the sampler would read an older %s", tensor, what)
}
