package model

import (
	"fmt"
	"math"
	"slices"

	"github.com/seed-7879b91d/grpo/kernels"
)

// copies are the matrices that the kernels read in place of trained parameters, which lie row by row in a
// slab, the masters.
type copies struct {
	all     []copied
	scratch kernels.Buffer // of the largest
	read    []float32
}

type copied struct {
	mat    kernels.Matrix
	master kernels.Buffer
	offset int // of master in its slab
}

func (c *copies) add(mat kernels.Matrix, master kernels.Buffer, offset int) {
	c.all = append(c.all, copied{mat, master, offset})
}

// allocate makes the room that stale needs, when all copies are known.
func (c *copies) allocate(b kernels.Backend) (err error) {
	largest := 0
	for _, m := range c.all {
		largest = max(largest, m.master.Len())
	}
	c.scratch, err = b.Alloc(kernels.F32, largest)
	return err
}

// publish shows the kernels the masters as they are now.
func (c *copies) publish(b kernels.Backend) {
	for _, m := range c.all {
		b.Pack(m.mat, 0, m.master)
	}
}

// stale finds the first number of a matrix whose bits are not those of its masters, or −1.
func (c *copies) stale(b kernels.Backend, mat kernels.Matrix, masters []float32) (int, error) {
	c.read = slices.Grow(c.read[:0], len(masters))[:len(masters)]
	b.Unpack(c.scratch, mat)
	if err := b.Download(c.read, c.scratch); err != nil {
		return 0, err
	}
	for i, v := range masters {
		if math.Float32bits(v) != math.Float32bits(c.read[i]) {
			return i, nil
		}
	}
	return -1, nil
}

// unpublished is the error of a copy that is stale.
func unpublished(tensor, what string) error {
	return fmt.Errorf("%s was changed but not published: the sampler would read an older %s", tensor, what)
}
