//go:build gpu

package driver

// #include "cuda.h"
import "C"

import (
	"fmt"
	"math"
	"strings"
	"unsafe"

	"gorgonia.org/cu"
)

// Module is PTX compiled by the driver for a card.
type Module struct {
	device *Device
	module cu.Module
}

// Refused is the error for PTX that the driver does not compile, with the log of its compiler.
type Refused struct {
	Answer *Error
	Log    string
}

func (r *Refused) Error() string {
	text := r.Answer.Error()
	if r.Log != "" {
		text += "; its compiler says: " + r.Log
	}
	return text + "; install a newer NVIDIA driver, or device=cpu"
}

// Unwrap returns the driver's answer.
func (r *Refused) Unwrap() error { return r.Answer }

// logBytes is the maximum size of the compiler's log. Its first lines matter most, so that the rest may be cut off.
const logBytes = 8 << 10

// Load compiles PTX. If the driver refuses it, the error is a *Refused.
func (d *Device) Load(ptx string) (*Module, error) {
	// The options hold addresses that the garbage collector does not see, so the log is C memory.
	log := C.calloc(1, logBytes)
	defer C.free(log)
	buffer := unsafe.Slice((*byte)(log), logBytes)
	if err := d.enter(); err != nil {
		return nil, err
	}
	module, err := cu.LoadDataEx(ptx, &cu.JITErrorLogBuffer{Buffer: buffer})
	if err = d.leave("loading kernels", err); err != nil {
		refused, ok := err.(*Error)
		if !ok || sticky(refused.Code) || refused.Code == C.CUDA_ERROR_OUT_OF_MEMORY {
			return nil, err
		}
		return nil, &Refused{refused, firstLines(C.GoString((*C.char)(log)), 8)}
	}
	m := &Module{d, module}
	d.keep(m)
	return m, nil
}

// firstLines joins the first lines of a text.
func firstLines(text string, most int) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) > most {
		lines = append(lines[:most], fmt.Sprintf("and %d lines more", len(lines)-most))
	}
	return strings.Join(lines, "; ")
}

// Close unloads the module. Its functions must not be used afterwards.
func (m *Module) Close() error { return m.device.drop(m, "a module") }

func (m *Module) count(h *Held, sign int64) { h.Modules += sign }

func (m *Module) release() error {
	if err := m.device.begin(); err != nil {
		return err
	}
	return m.device.leave("unloading kernels", m.module.Unload())
}

// defaultShared is the shared memory that a launch may use without AllowShared.
const defaultShared = 48 << 10

// Function is a kernel and its resource usage.
type Function struct {
	device   *Device
	function cu.Function
	name     string
	allowed  int // bytes of dynamic shared memory

	Registers int // per thread
	Local     int // bytes of local memory per thread, for spilled registers
	Shared    int // bytes of static shared memory per block
	Threads   int // maximum per block
}

// Function looks up a kernel by its name in the PTX.
func (m *Module) Function(name string) (*Function, error) {
	d := m.device
	if err := d.enter(); err != nil {
		return nil, err
	}
	function, err := m.module.Function(name)
	f := &Function{device: d, function: function, name: name, allowed: defaultShared}
	for _, ask := range []struct {
		attribute cu.FunctionAttribute
		into      *int
	}{
		{C.CU_FUNC_ATTRIBUTE_NUM_REGS, &f.Registers},
		{C.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &f.Local},
		{C.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &f.Shared},
		{C.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &f.Threads},
	} {
		if err == nil {
			*ask.into, err = function.Attribute(ask.attribute)
		}
	}
	if err = d.leave("looking for a kernel", err); err != nil {
		return nil, fmt.Errorf("kernel %s: %w", name, err)
	}
	f.allowed = min(defaultShared, defaultShared-f.Shared)
	return f, nil
}

// Name is the kernel's name in the PTX.
func (f *Function) Name() string { return f.name }

// AllowShared raises the dynamic shared memory that launches may use. It is required above 48 KiB, static shared memory
// included; each card has a maximum.
func (f *Function) AllowShared(bytes int) error {
	d := f.device
	if most := d.card.Shared - f.Shared; bytes > most {
		return fmt.Errorf("%s: kernel %s: %d bytes of shared memory for a block, expected at most %d", d.card, f.name, bytes, most)
	}
	if bytes <= f.allowed {
		return nil
	}
	if err := d.enter(); err != nil {
		return err
	}
	if err := d.leave("asking for shared memory", allowShared(f.function, bytes)); err != nil {
		return fmt.Errorf("kernel %s: %w", f.name, err)
	}
	f.allowed = bytes
	return nil
}

// Dim is a number of blocks or threads in x, y and z; 0 counts as 1.
type Dim struct{ X, Y, Z int }

// counts are the numbers that the driver expects.
func (d Dim) counts() *[3]uint32 {
	return &[3]uint32{uint32(max(d.X, 1)), uint32(max(d.Y, 1)), uint32(max(d.Z, 1))}
}

// String is "8", or "8 × 2 × 1".
func (d Dim) String() string {
	c := d.counts()
	if c[1] == 1 && c[2] == 1 {
		return fmt.Sprint(c[0])
	}
	return fmt.Sprintf("%d × %d × %d", c[0], c[1], c[2])
}

// By sets Y to the number of blocks that handle the columns, `each` columns per block.
func (d Dim) By(columns, each int) Dim {
	d.Y = (columns + each - 1) / each
	return d
}

// Arg is an argument of a kernel: 8 bytes, of which the kernel reads as many as its parameter has.
type Arg uint64

// Address is an argument that is an address on the card.
func Address(at Ptr) Arg { return Arg(at) }

// Int is an integer argument of up to 64 bits.
func Int(n int) Arg { return Arg(n) }

// Float is an argument of type float.
func Float(x float32) Arg { return Arg(math.Float32bits(x)) }

// Double is an argument of type double.
func Double(x float64) Arg { return Arg(math.Float64bits(x)) }

// maxArgs is the maximum number of arguments of a launch; grpo_cuda_launch has an array of this size.
const maxArgs = 32

// Launch queues a kernel: grid blocks of block threads, with shared bytes of dynamic shared memory per block.
func (s *Stream) Launch(f *Function, grid, block Dim, shared int, args ...Arg) error {
	if len(args) > maxArgs {
		return fmt.Errorf("kernel %s: %d arguments, expected at most %d", f.name, len(args), maxArgs)
	}
	if shared > f.allowed {
		return fmt.Errorf("kernel %s: %d bytes of dynamic shared memory, expected at most %d: AllowShared comes first", f.name, shared, f.allowed)
	}
	d := s.device
	if err := d.usable(); err != nil {
		return err
	}
	d.launched.Store(f)
	if err := launch(d, f.function, s.stream, grid.counts(), block.counts(), shared, args); err != nil {
		return fmt.Errorf("kernel %s, %v blocks of %v threads: %w", f.name, grid, block, d.failed("launching", err))
	}
	return nil
}
