package model

import (
	"fmt"
	"math"
	"slices"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/lora"
)

// Adapter is a LoRA adapter in a backend's memory: f32 masters and gradients in two slabs of the
// layout's order, and the matrices that the kernels read.
type Adapter struct {
	*lora.Layout
	Params, Grads kernels.Buffer
	branches      map[string]*branch // by slot; absent where nothing is adapted
	scratch       kernels.Buffer     // of the largest matrix, for verify
}

// branch is what an adapter adds to one packed linear. The A matrices of its targets are one matrix.
type branch struct {
	windows []window // of the linear's output, one per target
	a       operand
	b       []operand
	masterA kernels.Buffer
	masterB []kernels.Buffer
	gradA   kernels.Buffer
	gradB   []kernels.Buffer
}

// newAdapter brings an adapter to the backend.
func newAdapter(b kernels.Backend, cfg Config, host *lora.Adapter) (*Adapter, error) {
	a := &Adapter{Layout: host.Layout, branches: map[string]*branch{}}
	var err error
	if a.Params, err = b.Alloc(kernels.F32, host.Len()); err != nil {
		return nil, fmt.Errorf("adapter: %w", err)
	}
	if a.Grads, err = b.Alloc(kernels.F32, host.Len()); err != nil {
		return nil, fmt.Errorf("adapter gradients: %w", err)
	}
	for layer := range cfg.Layers {
		for _, g := range groups {
			if err := a.addBranch(b, layer, g); err != nil {
				return nil, fmt.Errorf("adapter: %w", err)
			}
		}
	}
	largest := 0
	for _, br := range a.branches {
		for _, o := range append([]operand{br.a}, br.b...) {
			largest = max(largest, o.mat.Rows()*o.mat.Cols())
		}
	}
	if a.scratch, err = b.Alloc(kernels.F32, largest); err != nil {
		return nil, err
	}
	b.Upload(a.Params, host.Values)
	a.Publish(b)
	return a, b.Sync()
}

func (a *Adapter) addBranch(b kernels.Backend, layer int, g group) error {
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
			m, err := b.NewMatrix(kernels.F32, eb.Rows, eb.Cols)
			if err != nil {
				return err
			}
			br.windows = append(br.windows, window{from, out})
			br.b = append(br.b, operand{mat: m, width: eb.Cols})
			br.masterB = append(br.masterB, a.Params.Slice(eb.Offset, eb.Offset+eb.Len()))
			br.gradB = append(br.gradB, a.Grads.Slice(eb.Offset, eb.Offset+eb.Len()))
		}
		from += out
	}
	if len(br.windows) == 0 {
		return nil
	}
	m, err := b.NewMatrix(kernels.F32, size/in, in)
	if err != nil {
		return err
	}
	br.a = operand{mat: m, width: in}
	br.masterA, br.gradA = a.Params.Slice(start, start+size), a.Grads.Slice(start, start+size)
	a.branches[at(layer, g.slot)] = br
	return nil
}

// verify wants every matrix that the kernels read to hold its masters, number by number, and gives the
// SHA-256 of all of them: the name of the policy that is sampled from.
func (a *Adapter) verify(b kernels.Backend) (hash string, err error) {
	host := lora.New(a.Layout)
	if err := b.Download(host.Values, a.Params); err != nil {
		return "", err
	}
	var read []float32
	check := func(m kernels.Matrix, at lora.Entry) error {
		n := m.Rows() * m.Cols()
		read = slices.Grow(read[:0], n)[:n]
		b.Unpack(a.scratch, m)
		if err := b.Download(read, a.scratch); err != nil {
			return err
		}
		for i, v := range host.Values[at.Offset : at.Offset+n] {
			if math.Float32bits(v) != math.Float32bits(read[i]) {
				return fmt.Errorf("%s was changed but not published: the sampler would read an older adapter", a.Locate(at.Offset+i))
			}
		}
		return nil
	}
	for layer := range a.Dims.Layers {
		for _, g := range groups {
			first := true
			for i, t := range slices.DeleteFunc(slices.Clone(g.targets), func(t lora.Target) bool { return !slices.Contains(a.Config.Targets, t) }) {
				br := a.branches[at(layer, g.slot)]
				ea, eb, _ := a.Pair(layer, t)
				if first {
					if err := check(br.a.mat, ea); err != nil {
						return "", err
					}
					first = false
				}
				if err := check(br.b[i].mat, eb); err != nil {
					return "", err
				}
			}
		}
	}
	return host.Hash(), nil
}

// Publish shows the kernels the masters as they are now.
func (a *Adapter) Publish(b kernels.Backend) {
	for _, br := range a.branches {
		b.Pack(br.a.mat, 0, br.masterA)
		for i := range br.b {
			b.Pack(br.b[i].mat, 0, br.masterB[i])
		}
	}
}
