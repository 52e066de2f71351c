package model

import (
	"fmt"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model/internal/adapted"
	"github.com/seed-7879b91d/grpo/model/internal/arch"
	"github.com/seed-7879b91d/grpo/model/internal/copies"
	"github.com/seed-7879b91d/grpo/model/internal/program"
)

// adapter is a LoRA adapter in a backend's memory: f32 master weights and gradients, two slabs in the
// order of the layout, and copies of the masters as the matrices that the kernels read.
type adapter struct {
	*lora.Layout
	b         kernels.Backend
	slab      copies.Slabs
	branches  map[string]*branch // by slot; absent if the adapter has no target there
	copies    copies.Set
	precision Precision // of its products
}

// branch is the part of an adapter for one packed linear (such as q, k and v). The A matrices of its targets are one matrix.
type branch struct {
	windows []kernels.Window // columns of the linear's output, one for each target
	a       program.Operand
	b       []program.Operand
	gradA   kernels.Buffer
	gradB   []kernels.Buffer
}

// newAdapter copies an adapter to the backend.
func newAdapter(b kernels.Backend, host *lora.Adapter, o Options) (a *adapter, err error) {
	a = &adapter{Layout: host.Layout, b: b, precision: o.AdapterPrecision, branches: map[string]*branch{}}
	if a.slab, err = copies.NewSlabs(b, host.Len(), !o.Frozen); err != nil {
		return nil, fmt.Errorf("adapter: %w", err)
	}
	for layer := range a.Dims.Layers {
		for _, l := range adapted.Linears {
			if err := a.addBranch(layer, l); err != nil {
				return nil, fmt.Errorf("adapter: %w", err)
			}
		}
	}
	if err := a.copies.Allocate(b); err != nil {
		return nil, err
	}
	b.Upload(a.slab.Params, host.Values)
	a.publish()
	return a, b.Sync()
}

func (a *adapter) addBranch(layer int, l adapted.Linear) error {
	s, err := adapted.ShareOf(a.Layout, layer, l)
	if err != nil || s == nil {
		return err
	}
	br := &branch{windows: s.Windows}
	for _, e := range s.B {
		o, grad, err := a.matrix(e)
		if err != nil {
			return err
		}
		br.b, br.gradB = append(br.b, o), append(br.gradB, grad)
	}
	br.a, br.gradA, err = a.matrix(s.A)
	a.branches[arch.At(layer, l.Slot)] = br
	return err
}

// matrix allocates the kernels' copy of one matrix of the slabs, and finds its gradient.
func (a *adapter) matrix(e lora.Entry) (o program.Operand, grad kernels.Buffer, err error) {
	m, err := a.b.NewMatrix(a.precision.Trained(), e.Rows, e.Cols)
	if err != nil {
		return o, nil, err
	}
	params, grads := a.slab.Within(e.Offset, e.Offset+e.Len())
	a.copies.Add(m, params, e.Offset)
	return program.Operand{Mat: m, Width: e.Cols}, grads, nil
}

func (a *adapter) slabs() (params, grads kernels.Buffer) { return a.slab.Params, a.slab.Grads }
func (a *adapter) locate(offset int) string              { return a.Locate(offset) }
func (a *adapter) publish()                              { a.copies.Publish(a.b) }

func (a *adapter) count() int {
	n := 0
	for _, e := range a.Entries() {
		n += e.Len()
	}
	return n
}

// host copies a slab to the host, into values. For short use these are copies.Room, scratch that the memory plan of a run includes.
func (a *adapter) host(slab kernels.Buffer, values []float32) (*lora.Adapter, error) {
	return &lora.Adapter{Layout: a.Layout, Values: values}, a.b.Download(values, slab)
}

func (a *adapter) verify() (hash string, err error) {
	host, err := a.host(a.slab.Params, a.copies.HostBuffer(a.Len()))
	if err != nil {
		return "", err
	}
	for _, c := range a.copies.All {
		i, err := a.copies.Stale(a.b, c.Mat, 0, host.Values[c.Offset:c.Offset+c.Master.Len()])
		if err != nil {
			return "", err
		}
		if i >= 0 {
			return "", copies.Unpublished(a.Locate(c.Offset+i), "adapter")
		}
	}
	return host.Hash(), nil
}

func (a *adapter) save(dir, base string) error {
	host, err := a.host(a.slab.Params, a.copies.HostBuffer(a.Len()))
	if err != nil {
		return err
	}
	return host.Save(dir, base)
}

func (a *adapter) restore(dir string) error {
	saved, err := lora.LoadInto(dir, a.Dims, a.copies.HostBuffer)
	if err != nil {
		return err
	}
	if saved.Len() != a.Len() || !slices.Equal(saved.Entries(), a.Entries()) || saved.Scale() != a.Scale() {
		return badinput.Errorf("%s: the adapter must have the rank, scale and targets of the one in use, found %+v", dir, saved.Config)
	}
	a.b.Upload(a.slab.Params, saved.Values)
	a.publish()
	return a.b.Sync()
}

func (a *adapter) saveGradients(path string) error {
	if a.slab.Grads == nil {
		return errNothing()
	}
	grads, err := a.host(a.slab.Grads, a.copies.HostBuffer(a.Len()))
	if err != nil {
		return err
	}
	return grads.WriteTensors(path, grads.Values)
}
