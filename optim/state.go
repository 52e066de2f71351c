package optim

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
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
	// The checksum precedes the numbers in the file: they are downloaded twice, rather than held as a whole.
	sum := sha256.New()
	fmt.Fprintln(sum, a.made().step)
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

// LoadState loads the moments and the number of steps that SaveState wrote. A file that is damaged or
// belongs to other parameters is an input error, and changes nothing.
func (a *Adam) LoadState(path string) (err error) {
	a.made()
	f, err := tensorfile.OpenPieces(path)
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
	// The file is read twice, in chunks: nothing may change before all of it is checked.
	if err := a.checkMoments(f, path, step); err != nil {
		return err
	}
	a.ParamsWritten()
	for _, mo := range []struct {
		name string
		slab kernels.Buffer
	}{{"m", a.m}, {"v", a.v}} {
		if err := a.eachMoment(f, mo.name, func(from int, values []float32, _ []byte) error {
			a.b.Upload(mo.slab.Slice(from, from+len(values)), values)
			return nil
		}); err != nil {
			return err
		}
	}
	a.step = step
	return nil
}

// checkMoments validates the checksum of a state, and that its numbers are possible moments.
func (a *Adam) checkMoments(f *tensorfile.Pieces, path string, step int) (err error) {
	sum := sha256.New()
	fmt.Fprintln(sum, step)
	var wrong [3]error // of the first moments, of the second, and of these as squares
	for k, name := range []string{"m", "v"} {
		err := a.eachMoment(f, name, func(from int, values []float32, bytes []byte) error {
			sum.Write(bytes)
			if i := slices.IndexFunc(values, func(x float32) bool { return x-x != 0 }); i >= 0 && wrong[k] == nil {
				wrong[k] = badinput.Errorf("%s: tensor %q: element %d is %v, expected finite numbers", path, name, from+i, values[i])
			}
			if i := noSquare(values); k == 1 && i >= 0 && wrong[2] == nil {
				wrong[2] = badinput.Errorf("%s: tensor %q: element %d is %v, expected at least 0, as every step leaves it",
					path, name, from+i, values[i])
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if want, found := f.Metadata()["sha256"], hex.EncodeToString(sum.Sum(nil)); found != want {
		return badinput.Errorf("%s: the state has checksum %s, its metadata say %q: the file is damaged", path, found, want)
	}
	return cmp.Or(wrong[:]...)
}

// eachMoment reads a tensor of a state in chunks, as numbers and as bytes.
func (a *Adam) eachMoment(f *tensorfile.Pieces, name string, fn func(from int, values []float32, bytes []byte) error) error {
	n := a.params.Len()
	host := make([]float32, min(chunk, n))
	return f.Each(name, chunk, func(from int, t tensorfile.Tensor) error {
		values := host[:t.Len()]
		tensorfile.Widen(values, t.Encoding, t.Bytes)
		return fn(from, values, t.Bytes)
	}, n)
}
