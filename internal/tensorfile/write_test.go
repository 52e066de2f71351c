package tensorfile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/nlpodyssey/safetensors"
	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/kernels"
)

func sample(enc kernels.Encoding, name string, shape ...int) Source {
	n := 1
	for _, s := range shape {
		n *= s
	}
	values, b := make([]float64, n), make([]byte, n*enc.Size())
	for i := range values {
		values[i] = math.Sin(float64(i + len(name)))
	}
	Narrow(b, enc, values)
	return FromTensor(Tensor{Name: name, Encoding: enc, Shape: shape, Bytes: b})
}

func samples() []Source {
	return []Source{
		sample(kernels.EncodedBF16, "b", 2, 3), sample(kernels.EncodedF32, "z\"\n<é", 5), sample(kernels.EncodedF16, "a", 3),
		sample(kernels.EncodedF32, "m", 0, 4), sample(kernels.EncodedBF16, "a2", 1), sample(kernels.EncodedF32, "scalar"),
	}
}

// The file is, byte for byte, that of the library's own writer for the same tensors.
func TestWriteAgainstLibrary(t *testing.T) {
	sources := slices.DeleteFunc(samples(), func(s Source) bool { return len(s.Shape) == 0 }) // which the library refuses
	for i, of := range []safetensors.DType{safetensors.BOOL, safetensors.I64, safetensors.U8, safetensors.F64, safetensors.U16} {
		o := Other{Name: fmt.Sprint("other", i), DType: of, Shape: []int{3}, Bytes: make([]byte, 3*of.Size())}
		sources = append(sources, FromOther(o))
	}
	want := views(t, sources)
	for _, metadata := range []map[string]string{nil, {"format": "pt", "a\"": "é\n"}} {
		againstLibrary(t, sources, want, metadata)
	}
}

// views are tensors as the library has them.
func views(t *testing.T, sources []Source) map[string]safetensors.TensorView {
	t.Helper()
	out := make(map[string]safetensors.TensorView)
	for _, s := range sources {
		var b bytes.Buffer
		if err := s.Write(&b); err != nil {
			t.Fatal(err)
		}
		shape := []uint64{}
		for _, d := range s.Shape {
			shape = append(shape, uint64(d))
		}
		view, err := safetensors.NewTensorView(s.dtype(), shape, b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		out[s.Name] = view
	}
	return out
}

func againstLibrary(t *testing.T, sources []Source, want map[string]safetensors.TensorView, metadata map[string]string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m")
	if err := Write(path, sources, metadata); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	st, err := safetensors.Deserialize(data)
	if err != nil {
		t.Fatal(err)
	}
	if st.Len() != len(want) {
		t.Errorf("%d tensors, expected %d", st.Len(), len(want))
	}
	for name, w := range want {
		got, ok := st.Tensor(name)
		if !ok || got.DType() != w.DType() || !slices.Equal(got.Shape(), w.Shape()) || !bytes.Equal(got.Data(), w.Data()) {
			t.Errorf("%q: found %v, %v %v", name, ok, got.DType(), got.Shape())
		}
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.size%8 != 0 || fmt.Sprint(f.Metadata()) != fmt.Sprint(metadata) {
		t.Errorf("the data start at %d, the metadata are %v", f.size, f.Metadata())
	}
	// The library orders data in the same way, but the keys of its header by name alone.
	reference, err := safetensors.Serialize(want, metadata)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasSuffix(reference, data[f.size:]) || len(reference) != len(data) {
		t.Error("the data lie in another order than the library's")
	}
}

// The order in which tensors are given does not matter.
func TestWriteRepeats(t *testing.T) {
	dir := t.TempDir()
	turned := samples()
	slices.Reverse(turned)
	var files [][]byte
	for i, sources := range [][]Source{samples(), turned} {
		path := filepath.Join(dir, fmt.Sprint(i))
		if err := Write(path, sources, map[string]string{"y": "1", "x": "2"}); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, data)
	}
	if !bytes.Equal(files[0], files[1]) {
		t.Error("the same tensors gave different files")
	}
}

// A failed write leaves the old file, and nothing else.
func TestWriteFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m")
	if err := Write(path, samples(), nil); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	gives := func(n int, err error) Source {
		return Source{Name: "w", Encoding: kernels.EncodedF32, Shape: []int{2}, Write: func(w io.Writer) error {
			return errors.Join(second(w.Write(make([]byte, n))), err)
		}}
	}
	for want, sources := range map[string][]Source{
		`tensor "w": broken`: {gives(8, broken)},
		`tensor "w": 4 bytes were given, its shape [2] asks for 8`:  {gives(4, nil)},
		`tensor "w": 12 bytes were given, its shape [2] asks for 8`: {gives(12, nil)},
		`tensor name "w" cannot be used twice`:                      {gives(8, nil), gives(8, nil)},
		`tensor name "__metadata__" cannot be used`:                 {FromFloat32s("__metadata__", nil, 0)},
	} {
		if err := Write(path, sources, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, expected %q", err, want)
		}
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if found, _ := os.ReadDir(dir); len(found) != 1 || !bytes.Equal(before, after) {
		t.Errorf("the old file changed, or there is more: %v", found)
	}
}

// A model is split before the tensor that would exceed the limit, and is read back unchanged.
func TestWriteModel(t *testing.T) {
	sources := samples() // 12, 20, 6, 0, 2 and 4 bytes
	for limit, want := range map[int64]string{
		44: "model.safetensors",
		43: "model-00001-of-00002.safetensors model-00002-of-00002.safetensors model.safetensors.index.json",
		32: "model-00001-of-00002.safetensors model-00002-of-00002.safetensors model.safetensors.index.json",
		13: "model-00001-of-00003.safetensors model-00002-of-00003.safetensors model-00003-of-00003.safetensors " +
			"model.safetensors.index.json",
	} {
		dir := t.TempDir()
		if err := writeModel(dir, sources, map[string]string{"format": "pt"}, limit); err != nil {
			t.Fatal(err)
		}
		var names []string
		found, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			names = append(names, f.Name())
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("limit %d: found %s, expected %s", limit, got, want)
		}
		s, err := OpenModel(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for _, source := range sources {
			var b bytes.Buffer
			if err := source.Write(&b); err != nil {
				t.Fatal(err)
			}
			x, err := s.Tensor(source.Name)
			if err != nil || !bytes.Equal(x.Bytes, b.Bytes()) || !slices.Equal(x.Shape, source.Shape) {
				t.Errorf("limit %d: %q came back otherwise: %v", limit, source.Name, err)
			}
		}
		if s.Index() != "" {
			var index struct{ Metadata struct{ Total_size int } }
			text, err := os.ReadFile(s.Index())
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(text, &index); err != nil || index.Metadata.Total_size != 44 {
				t.Errorf("limit %d: total_size %d: %v", limit, index.Metadata.Total_size, err)
			}
		}
		refused(t, writeModel(dir, sources, nil, limit), dir, "choose a folder without a model")
	}
}

// Writing a large file takes little memory.
func TestWriteIsBounded(t *testing.T) {
	const tensors, size = 16, 4 << 20
	block := make([]byte, 1<<16)
	var sources []Source
	for i := range tensors {
		sources = append(sources,
			Source{Name: fmt.Sprint(i), Encoding: kernels.EncodedBF16, Shape: []int{size / 2}, Write: func(w io.Writer) error {
				for range size / len(block) {
					if _, err := w.Write(block); err != nil {
						return err
					}
				}
				return nil
			}})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := Write(filepath.Join(t.TempDir(), "m"), sources, nil); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 3<<20 {
		t.Errorf("%d bytes were allocated to write %d", used, tensors*size)
	}
}

// A stop ends writing, also in the middle of a tensor.
func TestUntil(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var out stoppingWriter
	out.stop = stop
	n, err := ContextWriter(ctx, &out).Write(make([]byte, 3<<24))
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []int{2 << 24, 2 << 24}, []int{n, out.bytes})
	n, err = ContextWriter(ctx, &out).Write(nil)
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, n)
	n, err = ContextWriter(t.Context(), io.Discard).Write(make([]byte, 1<<24+5))
	require.NoError(t, err)
	require.Equal(t, 1<<24+5, n)
}

// stoppingWriter counts writes, and stops at the second.
type stoppingWriter struct {
	times, bytes int
	stop         func()
}

func (s *stoppingWriter) Write(p []byte) (int, error) {
	if s.times++; s.times == 2 {
		s.stop()
	}
	s.bytes += len(p)
	return len(p), nil
}
