package kerneltest

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest/oracle"
)

func testMemory(t *testing.T, m *backend) {
	t.Run("buffers", func(t *testing.T) { testBuffers(t, m) })
	t.Run("releasing", func(t *testing.T) { testRelease(t, m) })
	t.Run("encodings", func(t *testing.T) { testEncodings(t, m) })
	t.Run("matrices", func(t *testing.T) { testMatrices(t, m) })
}

func (m *backend) expect(t *testing.T, what string, b kernels.Buffer, want ...float32) {
	t.Helper()
	equal(t, what, result{{1, want}}, result{{1, m.read(b)}})
}

func testBuffers(t *testing.T, m *backend) {
	b := m.zeros(kernels.F32, 5)
	m.expect(t, "a new buffer", b, 0, 0, 0, 0, 0)

	host := []float32{1, 2, 3}
	m.Upload(b.Slice(1, 5), host)
	host[0] = 99 // the caller may change the source after the call
	m.expect(t, "uploaded into a slice", b, 0, 1, 2, 3, 0)

	m.Copy(b.Slice(0, 2), b.Slice(2, 4))
	m.expect(t, "copied between slices", b, 2, 3, 2, 3, 0)

	view := b.Slice(1, 4).Slice(1, 2)
	m.Zero(view)
	m.expect(t, "zeroed a slice of a slice", b, 2, 3, 0, 3, 0)
	if view.Len() != 1 || view.DType() != kernels.F32 {
		t.Errorf("a slice of one number is %v [%d]", view.DType(), view.Len())
	}

	short := make([]float32, 2) // reads only the start
	if err := m.Download(short, b); err != nil || !slices.Equal(short, []float32{2, 3}) {
		t.Errorf("download of the start gave %v, %v", short, err)
	}

	ids, got := m.i32(7, -1, math.MaxInt32), make([]int32, 3)
	if err := m.Download(got, ids); err != nil || !slices.Equal(got, []int32{7, -1, math.MaxInt32}) {
		t.Errorf("integers came back as %v, %v", got, err)
	}
	two, twice := make([]float32, 2), make([]float32, 2)
	m.Fetch(two, b)
	m.Add(b, b, b, 2)
	m.Fetch(twice, b)
	m.Zero(b)
	if err := m.Sync(); err != nil || !slices.Equal(two, []float32{2, 3}) || !slices.Equal(twice, []float32{4, 6}) {
		t.Errorf("fetched in turn: %v and %v, %v; expected each as it was when it was asked for", two, twice, err)
	}
	sums := m.zeros(kernels.F64, 3)
	m.Upload(sums, []float64{math.Pi, -1e300})
	if got := m.read64(sums); !slices.Equal(got, []float64{math.Pi, -1e300, 0}) {
		t.Errorf("doubles came back as %v", got)
	}
	if empty := m.zeros(kernels.F32, 0); empty.Len() != 0 || empty.Slice(0, 0).Len() != 0 {
		t.Error("an empty buffer has a length")
	}
}

// testRelease: operations that were queued before a buffer is released still see it; later uses are refused.
func testRelease(t *testing.T, m *backend) {
	const n = 1 << 16
	sum := m.zeros(kernels.F32, n)
	var parts []kernels.Buffer
	for i := range 8 {
		b := m.f32(slices.Repeat([]float32{float32(i)}, n)...)
		parts = append(parts, b, b.Slice(1, 2))
		m.Add(sum, sum, b, n)
		m.Release(b)
	}
	m.expect(t, "a sum of buffers that were released", sum, slices.Repeat([]float32{28}, n)...)
	for i, b := range parts {
		if !b.Released() {
			t.Errorf("buffer %d does not know that it has been released", i/2)
		}
	}
	if sum.Released() || sum.Slice(0, 1).Released() {
		t.Error("a buffer says that it has been released, and was not")
	}
	if room, known := m.Free(); known && room.Bytes <= 0 {
		t.Errorf("free: %v", room)
	}
}

// testEncodings loads every number of half precision and of bf16.
func testEncodings(t *testing.T, m *backend) {
	const cols = 256
	bytes := make([]byte, 0, 2<<16)
	for i := range 1 << 16 {
		bytes = binary.LittleEndian.AppendUint16(bytes, uint16(i))
	}
	for _, c := range []struct {
		name     string
		dtype    kernels.DType
		encoding kernels.Encoding
	}{
		{"bf16 in bf16", kernels.BF16, kernels.EncodedBF16},
		{"bf16 in f32", kernels.F32, kernels.EncodedBF16},
		{"f16 in f32", kernels.F32, kernels.EncodedF16},
	} {
		w, err := m.NewMatrix(c.dtype, 1<<16/cols, cols)
		if err != nil {
			t.Fatal(err)
		}
		m.Load(w, 0, kernels.HostRows{Encoding: c.encoding, Bytes: bytes})
		back := m.zeros(kernels.F32, 1<<16)
		m.Unpack(back, w)
		for i, got := range m.read(back) {
			want := oracle.Decode(c.encoding, bytes[2*i:])
			same := math.Float32bits(got) == math.Float32bits(want) || got != got && want != want
			if !same {
				t.Errorf("%s: %04x is %v, expected %v", c.name, i, got, want)
				break
			}
		}
	}
}

func testMatrices(t *testing.T, m *backend) {
	for _, s := range []struct{ rows, cols int }{{1, 1}, {7, 33}, {33, 7}, {100, 70}} {
		x := fixedNormals("matrix", s.rows*s.cols)
		for i := range x {
			x[i] = math.Float32frombits(math.Float32bits(x[i]) &^ 0xffff) // the same in bf16
		}
		for _, dtype := range matrixTypes {
			w := m.load(dtype, s.rows, s.cols, x)
			if w.Rows() != s.rows || w.Cols() != s.cols || w.DType() != dtype {
				t.Errorf("a matrix of %v [%d, %d] calls itself %v [%d, %d]", dtype, s.rows, s.cols, w.DType(), w.Rows(), w.Cols())
			}
			if w.Bytes() < s.rows*s.cols*dtype.Size() {
				t.Errorf("%v [%d, %d] takes %d bytes", dtype, s.rows, s.cols, w.Bytes())
			}
			back := m.zeros(kernels.F32, s.rows*s.cols)
			m.Unpack(back, w)
			m.expect(t, "loaded at once", back, x...)

			w, err := m.NewMatrix(dtype, s.rows, s.cols) // rows in pieces, the last ones first
			if err != nil {
				t.Fatal(err)
			}
			encoding := kernels.EncodedBF16
			size := s.cols * encoding.Size()
			bytes, half := encode(encoding, x), s.rows/2
			m.Load(w, half, kernels.HostRows{Encoding: encoding, Bytes: bytes[half*size:]})
			m.Load(w, 0, kernels.HostRows{Encoding: encoding, Bytes: bytes[:half*size]})
			m.Unpack(back, w)
			m.expect(t, "loaded in pieces", back, x...)
		}
		testPack(t, m, s.rows, s.cols)
	}
}

// testPack packs rows in pieces, with numbers exactly between two of bf16.
func testPack(t *testing.T, m *backend, rows, cols int) {
	y, half := fixedNormals("packed", rows*cols), rows/2
	for i := 0; i < len(y); i += 3 {
		y[i] = math.Float32frombits(math.Float32bits(y[i])&^0xffff | 0x8000)
	}
	src, back := m.f32(y...), m.zeros(kernels.F32, rows*cols)
	for _, dtype := range matrixTypes {
		w, err := m.NewMatrix(dtype, rows, cols)
		if err != nil {
			t.Fatal(err)
		}
		m.Pack(w, half, src.Slice(half*cols, rows*cols))
		m.Pack(w, 0, src.Slice(0, half*cols))
		m.Unpack(back, w)
		want := y
		if dtype != kernels.F32 {
			want = oracle.RoundedToBF16(y)
		}
		m.expect(t, fmt.Sprintf("%v packed in pieces", dtype), back, want...)
	}
}
