package optim

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
)

// The state is a safetensors file of the tensors m and v. Its metadata hold the number of steps and a
// SHA-256 of that number and of both tensors.
const stateFormat = "grpo-adam-1"

// SaveState writes the moments and the number of steps, atomically.
func (a *Adam) SaveState(path string) error {
	// The checksum stands before the numbers: they are brought over twice, and never held as a whole.
	sum := sha256.New()
	fmt.Fprintln(sum, a.step)
	moments := []struct {
		name   string
		buffer kernels.Buffer
	}{{"m", a.m}, {"v", a.v}}
	var sources []tensorfile.Source
	for _, mo := range moments {
		write := func(w io.Writer) error {
			return a.eachChunk(mo.buffer, func(_ int, values []float32) error { return tensorfile.WriteFloat32s(w, values) })
		}
		if err := write(sum); err != nil {
			return fmt.Errorf("optim: save %s: %w", path, err)
		}
		sources = append(sources, tensorfile.Source{
			Name: mo.name, Encoding: kernels.EncodedF32, Shape: []int{mo.buffer.Len()}, Write: write,
		})
	}
	return tensorfile.Write(path, sources, map[string]string{
		"format": stateFormat, "step": strconv.Itoa(a.step), "sha256": hex.EncodeToString(sum.Sum(nil)),
	})
}

// LoadState takes over the moments and the number of steps that SaveState wrote. A file that is damaged
// or that belongs to other parameters is an input error, and changes nothing.
func (a *Adam) LoadState(path string) (err error) {
	f, err := tensorfile.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	meta := f.Metadata()
	if meta["format"] != stateFormat {
		return badinput.Errorf("%s: metadata \"format\" is %q, expected %q: this is not a saved optimizer state",
			path, meta["format"], stateFormat)
	}
	step, err := strconv.Atoi(meta["step"])
	if err != nil || step < 0 || step > mostSteps {
		return badinput.Errorf("%s: metadata \"step\" is %q, expected a number of steps", path, meta["step"])
	}
	sum := sha256.New()
	fmt.Fprintln(sum, step)
	var moments [2]tensorfile.Tensor
	for i, name := range []string{"m", "v"} {
		t, err := f.Tensor(name, a.params.Len())
		if err != nil {
			return err
		}
		sum.Write(t.Bytes)
		moments[i] = t
	}
	if found := hex.EncodeToString(sum.Sum(nil)); found != meta["sha256"] {
		return badinput.Errorf("%s: the state has checksum %s, its metadata say %q: the file is damaged", path, found, meta["sha256"])
	}
	for _, t := range moments {
		if err := tensorfile.CheckFinite(t); err != nil {
			return err
		}
	}
	if err := checkSquares(moments[1]); err != nil {
		return err
	}
	a.upload(a.m, moments[0])
	a.upload(a.v, moments[1])
	a.step = step
	a.ParamsWritten()
	return nil
}

// checkSquares wants the numbers of a tensor to be means of squares.
func checkSquares(t tensorfile.Tensor) error {
	return inPieces(t, func(from int, values []float32) error {
		if i := noSquare(values); i >= 0 {
			return badinput.Errorf("%s: tensor %q: element %d is %v, expected at least 0: the state is none that a step left",
				t.File, t.Name, from+i, values[i])
		}
		return nil
	})
}

// upload fills a slab from a tensor of the same length.
func (a *Adam) upload(dst kernels.Buffer, t tensorfile.Tensor) {
	_ = inPieces(t, func(from int, values []float32) error {
		a.b.Upload(dst.Slice(from, from+len(values)), values)
		return nil
	})
}

// inPieces widens a tensor on the host, some of it at a time.
func inPieces(t tensorfile.Tensor, fn func(from int, values []float32) error) error {
	size := t.Encoding.Size()
	n := len(t.Bytes) / size
	host := make([]float32, min(chunk, n))
	for from := 0; from < n; from += chunk {
		values := host[:min(chunk, n-from)]
		tensorfile.Widen(values, t.Encoding, t.Bytes[from*size:])
		if err := fn(from, values); err != nil {
			return err
		}
	}
	return nil
}
