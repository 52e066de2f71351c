//go:build gpu

package driver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/kernels/cuda/internal/subprocess"
)

func init() {
	tasks["saxpy"] = func() error { return withProbeKernels(saxpy) }
	tasks["crowd"] = func() error { return withProbeKernels(crowd) }
	tasks["wrong"] = func() error { return withProbeKernels(tooFar) }
	tasks["refused"] = func() error {
		return withProbeKernels(func(d *Device, _ *Stream, _ *Module) error {
			_, err := d.Load(".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry f()\n{\n\tfrobnicate.f32 %f1;\n}\n")
			return err
		})
	}
}

// withProbeKernels calls use with the probe kernels loaded on a card. A lost card must close without an error, any other with nothing
// allocated.
func withProbeKernels(use func(*Device, *Stream, *Module) error) error {
	text, err := probeKernels("kernels")
	if err != nil {
		return err
	}
	d, err := Open(0, Options{})
	if err != nil {
		return err
	}
	s, err := d.NewStream()
	if err != nil {
		return errors.Join(err, d.Close())
	}
	m, err := d.Load(text)
	if err == nil {
		err = errors.Join(use(d, s, m), m.Close())
	}
	if errors.Is(err, ErrLost) {
		if closing := d.Close(); closing != nil {
			return fmt.Errorf("closing: %w", closing)
		}
		return err
	}
	return errors.Join(err, s.Close(), d.Close())
}

const many = 1000

// saxpy computes y + a·x with pinned memory, two streams and an event, and compares it with the host.
func saxpy(d *Device, s *Stream, m *Module) error {
	f, err := m.Function("saxpy")
	if err != nil {
		return err
	}
	pinned, err := d.Pin(12 * many)
	if err != nil {
		return err
	}
	memory, err := d.Alloc(8 * many)
	if err != nil {
		return errors.Join(err, pinned.Free())
	}
	up, err := d.NewStream()
	if err != nil {
		return errors.Join(err, pinned.Free(), memory.Free())
	}
	there, err := d.NewEvent(false)
	if err != nil {
		return errors.Join(err, pinned.Free(), memory.Free(), up.Close())
	}
	for i := range many {
		binary.LittleEndian.PutUint32(pinned.Bytes()[4*i:], math.Float32bits(float32(i)))
		binary.LittleEndian.PutUint32(pinned.Bytes()[4*(many+i):], math.Float32bits(float32(i*i)))
	}
	x := memory.At + 4*many
	for _, do := range []func() error{
		func() error { return up.Upload(memory.At, pinned, 0, 8*many) },
		func() error { return up.Record(there) },
		func() error { return s.Wait(there) },
		func() error {
			return s.Launch(f, Dim{X: 4}, Dim{X: 256}, 0, Address(memory.At), Address(x), Float(0.5), Int(many))
		},
		func() error { return s.Download(pinned, 8*many, memory.At, 4*many) },
		s.Sync,
	} {
		if err == nil {
			err = do()
		}
	}
	for i := range many {
		got := math.Float32frombits(binary.LittleEndian.Uint32(pinned.Bytes()[4*(2*many+i):]))
		if want := float32(i) + 0.5*float32(i*i); err == nil && got != want {
			err = fmt.Errorf("y[%d] is %v, expected %v", i, got, want)
		}
	}
	return errors.Join(err, there.Close(), up.Close(), memory.Free(), pinned.Free())
}

// crowd runs saxpy repeatedly on one card.
func crowd(d *Device, s *Stream, m *Module) error {
	for range 20 {
		if err := saxpy(d, s, m); err != nil {
			return err
		}
	}
	return nil
}

// tooFar launches a kernel that writes past the end of its memory.
func tooFar(d *Device, s *Stream, m *Module) error {
	f, err := m.Function("collatz")
	if err != nil {
		return err
	}
	memory, err := d.Alloc(4 * 100)
	if err != nil {
		return err
	}
	if err = s.Launch(f, Dim{X: 1}, Dim{X: 128}, 0, Address(memory.At), Int(101)); err == nil {
		err = s.Sync()
	}
	return errors.Join(err, memory.Free())
}

// The emulated device executes compiled kernels, launched through cu.
func TestKernelsRun(t *testing.T) {
	for _, task := range []string{"saxpy", "crowd"} {
		out, ok := subprocess.Emulated(t, task)
		require.True(t, ok, out)
		require.Empty(t, out, "the device found something")
	}
	out, ok := subprocess.Emulated(t, "probe", "GRPO_EMU_DEVICES=2", "GRPO_EMU_MEMORY=128M", "GRPO_EMU_CAPABILITY=9.0")
	require.True(t, ok, out)
	require.Contains(t, out, "card 1 (Test Card): compute capability 9.0, ")
	require.Contains(t, out, "128.0 MiB of memory")
}

// Each failure of the emulated device becomes the error message that it would be on a card.
func TestTroubleOnTheEmulatedDevice(t *testing.T) {
	for _, c := range []struct{ task, env, want string }{
		{"saxpy", "GRPO_EMU_DEVICES=0", "finds no card"},
		{"saxpy", "GRPO_EMU_DRIVER=10.2", "serves CUDA 10.2, the kernels need 11.0"},
		{"saxpy", "GRPO_EMU_CAPABILITY=7.5", "has compute capability 7.5, the kernels need 8.0"},
		{"saxpy", "GRPO_EMU_BUSY=1", "is busy: another process has it for itself"},
		{"saxpy", "GRPO_EMU_OOM_AFTER=1K", "allocating 8000 bytes where "},
		{"saxpy", "GRPO_EMU_FAIL_LAUNCH=1", "the last kernel launched was saxpy; nothing more runs on it in this process"},
		{"crowd", "GRPO_EMU_FAIL_LAUNCH=9", "the last kernel launched was saxpy; nothing more runs on it in this process"},
		{"wrong", "GRPO_EMU_THREADS=1", "the last kernel launched was collatz; nothing more runs on it in this process"},
		{"refused", "GRPO_EMU_THREADS=1", "its compiler says: "},
		{"refused", "GRPO_EMU_THREADS=1", "frobnicate"},
	} {
		out, ok := subprocess.Emulated(t, c.task, c.env)
		require.False(t, ok, c.env)
		require.Contains(t, out, c.want, c.env)
	}
}

// A card that is lost, at any call of a computation, gives a typed error, and closes without another.
func TestTheEmulatedDeviceIsLost(t *testing.T) {
	for at := 1; ; at += 7 {
		out, ok := subprocess.Emulated(t, "saxpy", "GRPO_EMU_LOST_AT="+strconv.Itoa(at))
		if ok {
			require.Greater(t, at, 30)
			return
		}
		require.NotContains(t, out, "closing", at)
		require.Contains(t, out, "CUDA_ERROR_UNKNOWN", at)
	}
}
