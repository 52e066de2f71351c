package model

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/nf4"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model/internal/arch"
	"github.com/seed-7879b91d/grpo/model/internal/copies"
	"github.com/seed-7879b91d/grpo/model/internal/program"
)

// masters are the f32 master weights of a model that is fully trained, and their gradients: two slabs of all slots in
// the order of the forward pass. The kernels read vectors from the slab, and matrices from copies, which may be rounded.
type masters struct {
	*weights
	copies  copies.Set
	slab    copies.Slabs
	offsets map[string]int
}

// newMasters allocates a model that is fully trained.
func newMasters(b kernels.Backend, cfg Config, o Options) (*masters, error) {
	p := o.Precision
	if p == I16 {
		return nil, badinput.Errorf("precision int16 is for frozen weights, and these are trained; take precision bf16 or f32")
	}
	w, err := newWeights(b, cfg, p)
	if err != nil {
		return nil, err
	}
	m := &masters{weights: w, offsets: map[string]int{}}
	size := 0
	for _, s := range m.order {
		m.offsets[s.Name] = size
		size += program.AlignUp(s.Size())
	}
	if m.slab, err = copies.NewSlabs(b, size, !o.Frozen); err != nil {
		return nil, fmt.Errorf("master weights: %w", err)
	}
	for _, s := range m.order {
		if s.Vector {
			m.operands[s.Name] = operand(s, m.master(s), nil)
			continue
		}
		mat, err := m.addMatrix(s, p.Trained())
		if err != nil {
			return nil, err
		}
		m.copies.Add(mat, m.master(s), m.offsets[s.Name])
	}
	return m, m.copies.Allocate(b)
}

// loadMasters reads a model to train it fully.
func loadMasters(b kernels.Backend, cfg Config, set *tensorfile.Set, o Options) (*masters, error) {
	m, err := newMasters(b, cfg, o)
	if err != nil {
		return nil, err
	}
	return m, m.fill(set)
}

// fill reads all weights from a model's files.
func (m *masters) fill(set *tensorfile.Set) error {
	room := make([]float32, chunkNumbers)
	err := m.load(set, nf4.Read, func(s arch.Slot, parts []stored) error {
		at := m.offsets[s.Name]
		for _, p := range parts {
			if p.codes != nil {
				return badinput.Errorf("weights in four bits cannot be trained; take train=lora, or a model in bf16")
			}
			n := p.numbers()
			for some := range slices.Chunk(n.Bytes, chunkNumbers*n.Encoding.Size()) {
				values := room[:len(some)/n.Encoding.Size()]
				tensorfile.Widen(values, n.Encoding, some)
				m.b.Upload(m.slab.Params.Slice(at, at+len(values)), values)
				at += len(values)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	m.publish()
	return nil
}

// within are the parts of the slabs that belong to a slot.
func (m *masters) within(s arch.Slot) (master, grad kernels.Buffer) {
	at := m.offsets[s.Name]
	return m.slab.Within(at, at+s.Size())
}

func (m *masters) master(s arch.Slot) kernels.Buffer {
	master, _ := m.within(s)
	return master
}

func (m *masters) slabs() (params, grads kernels.Buffer) { return m.slab.Params, m.slab.Grads }

func (m *masters) locate(offset int) string {
	for _, s := range m.order {
		at := m.offsets[s.Name]
		for _, p := range s.Parts {
			if at += p.Rows * s.Cols; offset < at {
				return p.Tensor
			}
		}
	}
	return "padding"
}

func (m *masters) publish() { m.copies.Publish(m.b) }

func (m *masters) verify() (hash string, err error) {
	h := sha256.New()
	room := make([]float32, chunkNumbers)
	for _, s := range m.order {
		for from := 0; from < s.Size(); from += chunkNumbers {
			values := room[:min(chunkNumbers, s.Size()-from)]
			if err := m.b.Download(values, m.master(s).Slice(from, from+len(values))); err != nil {
				return "", err
			}
			if mat := m.operands[s.Name].Mat; mat != nil {
				i, err := m.copies.Stale(m.b, mat, from, values)
				if err != nil {
					return "", err
				}
				if i >= 0 {
					return "", copies.Unpublished(m.locate(m.offsets[s.Name]+from+i), "model")
				}
			}
			if err := tensorfile.WriteFloat32s(h, values); err != nil {
				return "", err
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func (m *masters) save(dir, base string) error {
	if err := m.write(dir, kernels.EncodedF32); err != nil {
		return err
	}
	return copyCompanions(dir, base, m.cfg.Type("float32"))
}

func (m *masters) restore(dir string) error {
	set, err := tensorfile.OpenModel(dir)
	if err != nil {
		return err
	}
	defer set.Close()
	if err := m.fill(set); err != nil {
		return err
	}
	return m.b.Sync()
}

func (m *masters) saveGradients(path string) error {
	if m.slab.Grads == nil {
		return errNothing()
	}
	return tensorfile.Write(path, m.sources(m.slab.Grads, kernels.EncodedF32), nil)
}
