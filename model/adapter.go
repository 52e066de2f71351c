package model

import (
	"fmt"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model/internal/arch"
	"github.com/seed-7879b91d/grpo/model/internal/ops"
	"github.com/seed-7879b91d/grpo/model/internal/program"
)

// adapter is a LoRA adapter in a backend's memory: f32 masters and gradients in two slabs of the
// layout's order, and the matrices that the kernels read.
type adapter struct {
	*lora.Layout
	b             kernels.Backend
	params, grads kernels.Buffer
	branches      map[string]*branch // by slot; absent where nothing is adapted
	copies        copies
}

// branch is what an adapter adds to one packed linear. The A matrices of its targets are one matrix.
type branch struct {
	windows []ops.Window // of the linear's output, one per target
	a       program.Operand
	b       []program.Operand
	gradA   kernels.Buffer
	gradB   []kernels.Buffer
}

// group is a packed linear and the adapter targets that share its input.
type group struct {
	slot    string
	targets []lora.Target
}

var groups = []group{
	{"qkv", []lora.Target{lora.Q, lora.K, lora.V}},
	{"o", []lora.Target{lora.O}},
	{"gate_up", []lora.Target{lora.Gate, lora.Up}},
	{"down", []lora.Target{lora.Down}},
}

// newAdapter brings an adapter to the backend.
func newAdapter(b kernels.Backend, host *lora.Adapter) (*adapter, error) {
	a := &adapter{Layout: host.Layout, b: b, branches: map[string]*branch{}}
	var err error
	if a.params, err = b.Alloc(kernels.F32, host.Len()); err != nil {
		return nil, fmt.Errorf("adapter: %w", err)
	}
	if a.grads, err = b.Alloc(kernels.F32, host.Len()); err != nil {
		return nil, fmt.Errorf("adapter gradients: %w", err)
	}
	for layer := range a.Dims.Layers {
		for _, g := range groups {
			if err := a.addBranch(layer, g); err != nil {
				return nil, fmt.Errorf("adapter: %w", err)
			}
		}
	}
	if err := a.copies.allocate(b); err != nil {
		return nil, err
	}
	b.Upload(a.params, host.Values)
	a.publish()
	return a, b.Sync()
}

func (a *adapter) addBranch(layer int, g group) error {
	br := &branch{}
	from, start, size, in := 0, -1, 0, 0
	for _, t := range g.targets {
		out, _ := a.Dims.Shape(t)
		ea, eb, ok := a.Pair(layer, t)
		if ok {
			if start < 0 {
				start, in = ea.Offset, ea.Cols
			}
			if ea.Offset != start+size {
				return fmt.Errorf("%s is not beside the A matrix before it", ea.Name)
			}
			size += ea.Len()
			o, grad, err := a.matrix(eb.Offset, eb.Rows, eb.Cols)
			if err != nil {
				return err
			}
			br.windows = append(br.windows, ops.Window{From: from, N: out})
			br.b, br.gradB = append(br.b, o), append(br.gradB, grad)
		}
		from += out
	}
	if len(br.windows) == 0 {
		return nil
	}
	var err error
	br.a, br.gradA, err = a.matrix(start, size/in, in)
	a.branches[arch.At(layer, g.slot)] = br
	return err
}

// matrix makes the copy of a matrix that lies at an offset of the slabs, and finds its gradient.
func (a *adapter) matrix(offset, rows, cols int) (o program.Operand, grad kernels.Buffer, err error) {
	m, err := a.b.NewMatrix(kernels.F32, rows, cols)
	if err != nil {
		return o, nil, err
	}
	to := offset + rows*cols
	a.copies.add(m, a.params.Slice(offset, to), offset)
	return program.Operand{Mat: m, Width: cols}, a.grads.Slice(offset, to), nil
}

func (a *adapter) slabs() (params, grads kernels.Buffer) { return a.params, a.grads }
func (a *adapter) locate(offset int) string              { return a.Locate(offset) }
func (a *adapter) publish()                              { a.copies.publish(a.b) }

func (a *adapter) count() int {
	n := 0
	for _, e := range a.Entries() {
		n += e.Len()
	}
	return n
}

// host copies one of the slabs to the host.
func (a *adapter) host(slab kernels.Buffer) (*lora.Adapter, error) {
	h := lora.New(a.Layout)
	return h, a.b.Download(h.Values, slab)
}

func (a *adapter) verify() (hash string, err error) {
	host, err := a.host(a.params)
	if err != nil {
		return "", err
	}
	for _, c := range a.copies.all {
		i, err := a.copies.stale(a.b, c.mat, host.Values[c.offset:c.offset+c.master.Len()])
		if err != nil {
			return "", err
		}
		if i >= 0 {
			return "", unpublished(a.Locate(c.offset+i), "adapter")
		}
	}
	return host.Hash(), nil
}

func (a *adapter) save(dir, base string) error {
	host, err := a.host(a.params)
	if err != nil {
		return err
	}
	return host.Save(dir, base)
}

func (a *adapter) restore(dir string) error {
	saved, err := lora.Load(dir, a.Dims)
	if err != nil {
		return err
	}
	if saved.Len() != a.Len() || !slices.Equal(saved.Entries(), a.Entries()) || saved.Scale() != a.Scale() {
		return badinput.Errorf("%s: the adapter does not have the rank, scale and targets of the one in use", dir)
	}
	a.b.Upload(a.params, saved.Values)
	a.publish()
	return a.b.Sync()
}

func (a *adapter) saveGradients(path string) error {
	grads, err := a.host(a.grads)
	if err != nil {
		return err
	}
	return grads.WriteTensors(path, grads.Values)
}
