package cpu

import (
	"testing"
	"time"
	"unsafe"

	"github.com/seed-7879b91d/grpo/kernels"
)

func TestBuffersStartOnACacheLine(t *testing.T) {
	b := open(t, Options{Threads: 1})
	for _, n := range []int{0, 1, 100, 1 << 19, 3 << 20} {
		x := upload(t, b, make([]float32, n))
		if at := uintptr(x.(*buffer).p); at%64 != 0 {
			t.Errorf("%d elements start at %#x", n, at)
		}
	}
}

// Unreferenced memory is freed, although Go's collector does not see it.
func TestDroppedBuffersAreFreed(t *testing.T) {
	b := open(t, Options{Threads: 1})
	const size, times = 16 << 20, 100
	before := inUse.Load()
	most := int64(0)
	for range times {
		if _, err := b.Alloc(kernels.F32, size/4); err != nil {
			t.Fatal(err)
		}
		most = max(most, inUse.Load()-before)
		time.Sleep(time.Millisecond) // cleanups take a moment
	}
	if most > times*size/3 {
		t.Errorf("of %d bytes that were dropped, %d were held at once", times*size, most)
	}
}

// The argument structs are in C memory and are zeroed for each operation.
func TestArgumentsStartEmpty(t *testing.T) {
	b := openBare(t, Options{Threads: 1})
	raw := unsafe.Slice((*byte)(b.args), 512)
	for i := range raw {
		raw[i] = 0xff
	}
	if a := args[matrixArgs](b); *a != (matrixArgs{}) {
		t.Errorf("arguments hold %v", *a)
	}
}

type matrixArgs [2]int64
