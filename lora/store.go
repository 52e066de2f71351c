package lora

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/disk"
	"github.com/seed-7879b91d/grpo/internal/precondition"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
)

const (
	weightsName = "adapter_model.safetensors"
	configName  = "adapter_config.json"
)

// Save writes the adapter into the folder dir in PEFT's format. base is the name or path of the model
// that it belongs to. The same adapter gives the same bytes. What Load would refuse is not written.
func (a *Adapter) Save(dir, base string) error {
	precondition.NotNil("lora.Adapter.Save", "a", a)
	if err := a.checkFit(); err != nil {
		return err
	}
	if l, err := NewLayout(a.Config, a.Dims); err != nil {
		return err
	} else if !slices.Equal(l.entries, a.entries) {
		return fmt.Errorf("lora: the layout was made for another configuration or model than %+v and %+v", a.Config, a.Dims)
	}
	if err := a.checkFinite(); err != nil {
		return err
	}
	config, err := encodeConfig(a.Config, base)
	if err != nil {
		return err
	}
	if err := disk.MkdirAll(dir); err != nil {
		return err
	}
	// Remove an old configuration first: if the process dies, weights are never beside a configuration that is not theirs.
	path := filepath.Join(dir, configName)
	old, err := os.ReadFile(path)
	if err == nil && !bytes.Equal(old, config) {
		err = disk.Remove(path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := a.WriteTensors(filepath.Join(dir, weightsName), a.Values); err != nil {
		return err
	}
	return atomicfile.WriteBytes(path, config)
}

// WriteTensors writes a slab of this layout, of weights or of gradients, as a safetensors file with the
// adapter's tensor names.
func (l *Layout) WriteTensors(path string, slab []float32) error {
	if err := l.checkLen(slab); err != nil {
		return err
	}
	sources := make([]tensorfile.Source, len(l.entries))
	for i, e := range l.entries {
		sources[i] = tensorfile.FromFloat32s(e.Name, slab[e.Offset:e.Offset+e.Len()], e.Rows, e.Cols)
	}
	return tensorfile.Write(path, sources, map[string]string{"format": "pt"})
}

// Load reads the PEFT adapter in the folder dir for a model of these dimensions. An adapter that does
// not fit it, or that is more than plain LoRA, is an input error.
func Load(dir string, d Dims) (*Adapter, error) {
	return LoadInto(dir, d, func(n int) []float32 { return make([]float32, n) })
}

// LoadInto is Load into memory of the caller: room is called with the length once the adapter is known to fit, and returns a slice
// of that length, which becomes the adapter's Values. What was in it is overwritten.
func LoadInto(dir string, d Dims, room func(n int) []float32) (*Adapter, error) {
	precondition.NotNil("lora.LoadInto", "room", room)
	l, f, err := openFile(dir, d)
	if err != nil {
		return nil, err
	}
	a, err := l.read(f, room)
	return a, errors.Join(err, f.Close())
}

// Check reads the configuration of the adapter in the folder dir, and checks by the names and shapes of its tensors that
// Load could read it. It reads no values.
func Check(dir string, d Dims) (Config, error) {
	l, f, err := openFile(dir, d)
	if err != nil {
		return Config{}, err
	}
	err = l.check(f)
	return l.Config, errors.Join(err, f.Close())
}

// openFile opens the file to read in pieces: mapping it would take memory that is not planned for.
func openFile(dir string, d Dims) (*Layout, *tensorfile.Pieces, error) {
	config, err := ReadConfig(dir)
	if err != nil {
		return nil, nil, err
	}
	l, err := NewLayout(config, d)
	if err != nil {
		return nil, nil, err
	}
	f, err := tensorfile.OpenPieces(filepath.Join(dir, weightsName))
	return l, f, err
}

// check checks that the file has exactly the tensors of the layout, in its shapes.
func (l *Layout) check(f *tensorfile.Pieces) error {
	known := make(map[string]bool, len(l.entries))
	for _, e := range l.entries {
		if err := f.Check(e.Name, e.Rows, e.Cols); err != nil {
			return err
		}
		known[e.Name] = true
	}
	for _, name := range f.Names() {
		if !known[name] {
			return badinput.Errorf("%s: tensor %q has no place: %s and the model ask for %v in layers 0 to %d",
				f.Path(), name, configName, l.Config.Targets, l.Dims.Layers-1)
		}
	}
	return nil
}

// pieceLen is the number of values that are read at a time.
const pieceLen = 1 << 16

// read fills an adapter from its file.
func (l *Layout) read(f *tensorfile.Pieces, room func(n int) []float32) (*Adapter, error) {
	if err := l.check(f); err != nil {
		return nil, err
	}
	a := &Adapter{Layout: l, Values: room(l.Len())}
	if err := l.checkLen(a.Values); err != nil {
		return nil, err
	}
	clear(a.Values) // the padding, too
	for _, e := range l.entries {
		values := a.Of(e)
		err := f.Each(e.Name, pieceLen, func(from int, t tensorfile.Tensor) error {
			tensorfile.Widen(values[from:from+t.Len()], t.Encoding, t.Bytes)
			return tensorfile.CheckPiece(from, t)
		})
		if err != nil {
			return nil, err
		}
	}
	return a, nil
}
