//go:build gpu

package driver

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/kernels/cuda/internal/subprocess"
)

// kernel loads a file of probe kernels and looks up one of them.
func kernel(t *testing.T, d *Device, file, name string) *Function {
	t.Helper()
	text, err := probeKernels(file)
	require.NoError(t, err)
	m, err := d.Load(text)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := m.Close(); !errors.Is(err, ErrLost) {
			require.NoError(t, err)
		}
	})
	f, err := m.Function(name)
	require.NoError(t, err)
	return f
}

func TestLaunch(t *testing.T) {
	d := openDevice(t)
	s := stream(t, d)
	saxpy := kernel(t, d, "kernels", "saxpy")
	require.Equal(t, []any{"saxpy", 0, 0, 1024}, []any{saxpy.Name(), saxpy.Local, saxpy.Shared, saxpy.Threads})
	require.Positive(t, saxpy.Registers)
	m, err := d.Alloc(32)
	require.NoError(t, err)
	moves := transfers(t, s)
	require.NoError(t, moves.Upload(m.At, floats(1, 2, 3, 4, 1, 1, 1, 1)))
	launch := func() error {
		return s.Launch(saxpy, Dim{X: 1}, Dim{X: 4}, 0, Address(m.At), Address(m.At+16), Float(0.5), Int(3))
	}
	require.NoError(t, launch())
	back := make([]byte, 16)
	require.NoError(t, s.Read(back, m.At))
	require.Equal(t, floats(1.5, 2.5, 3.5, 4), back)
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = launch() }), "a launch must not allocate: a step has hundreds")

	err = s.Launch(saxpy, Dim{X: 1}, Dim{X: 1025}, 0)
	require.EqualError(t, err, "kernel saxpy, 1 blocks of 1025 threads: card 0 (Test Card): launching: "+
		"CUDA_ERROR_INVALID_VALUE (1): invalid argument")
	require.NotErrorIs(t, err, ErrLost)
	require.ErrorContains(t, s.Launch(saxpy, Dim{X: 2, Y: 3}, Dim{X: 1025}, 0), "kernel saxpy, 2 × 3 × 1 blocks of 1025 threads: ")
	require.ErrorContains(t, s.Launch(saxpy, Dim{}, Dim{}, 0, make([]Arg, 33)...), "kernel saxpy: 33 arguments, expected at most 32")
	require.NoError(t, m.Free())
}

func TestSharedMemory(t *testing.T) {
	d := openDevice(t)
	s := stream(t, d)
	const name = "missing_barrier_right" // it has 1 KiB of static shared memory
	m, err := d.Alloc(2048)
	require.NoError(t, err)
	require.NoError(t, s.Fill(m.At, 0, 2048))
	wide := kernel(t, d, "bugs", name)
	launch := func(shared int) error {
		return s.Launch(wide, Dim{}, Dim{X: 256}, shared, Address(m.At), Address(m.At+1024))
	}
	require.NoError(t, launch(47<<10))
	require.EqualError(t, launch(48<<10),
		"kernel "+name+": 49152 bytes of dynamic shared memory, expected at most 48128: AllowShared comes first")
	require.NoError(t, wide.AllowShared(90000))
	require.NoError(t, launch(90000))
	require.NoError(t, wide.AllowShared(1), "less than the device has")
	require.NoError(t, launch(90000))
	require.EqualError(t, wide.AllowShared(165889),
		"card 0 (Test Card): kernel "+name+": 165889 bytes of shared memory for a block, expected at most 165888")
	require.NoError(t, s.Sync())
	require.NoError(t, m.Free())
}

// If the driver refuses PTX, the error includes the log of its compiler, in one line.
func TestRefusedKernels(t *testing.T) {
	d := openDevice(t)
	_, err := d.Load("nonsense")
	var refused *Refused
	require.ErrorAs(t, err, &refused)
	require.EqualError(t, err, "card 0 (Test Card): loading kernels: CUDA_ERROR_INVALID_PTX (218): a PTX JIT compilation failed; "+
		"its compiler says: PTX line 1: PTX begins with .version: nonsense; install a newer NVIDIA driver, or device=cpu")
	require.Equal(t, "1; 2; 3; 4; 5; 6; 7; 8; and 2 lines more", firstLines("1\n2\n\n3\n4\n5\n6\n7\n8\n9\n10\n", 8))

	text, err := probeKernels("kernels")
	require.NoError(t, err)
	m, err := d.Load(text)
	require.NoError(t, err)
	_, err = m.Function("subtract")
	require.EqualError(t, err, "kernel subtract: card 0 (Test Card): looking for a kernel: CUDA_ERROR_NOT_FOUND (500): named symbol not found")
	require.NoError(t, m.Close())
}

// A card without memory for kernels is not reported as a compile error.
func TestNoMemoryForKernels(t *testing.T) {
	t.Setenv("GRPO_EMU_ANSWER", "cuModuleLoadDataEx:2")
	d := openDevice(t)
	text, err := probeKernels("kernels")
	require.NoError(t, err)
	_, err = d.Load(text)
	require.ErrorIs(t, err, ErrMemory)
	require.NotErrorAs(t, err, new(*Refused))
}

// The failure of a kernel is reported at the next call, and every call after that reports the same.
func TestACrash(t *testing.T) {
	out, ok := subprocess.Run(t, "crash")
	require.True(t, ok, out)
	const want = "card 0 (Test Card): copying from it: CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered; " +
		"the last kernel launched was collatz; nothing more runs on it in this process: look at dmesg for Xid, then type the same " +
		"command again (a run goes on from its last checkpoint)"
	require.Contains(t, out, "emulated device: out of bounds: kernel collatz")
	require.Equal(t, 2, strings.Count(out, want), out)
}

// If the card is lost, at any call, all later calls return a typed error, and closing adds no other.
func TestTheCardIsLost(t *testing.T) {
	seen := map[string]bool{}
	for at := 1; ; at++ {
		out, ok := subprocess.Run(t, "work", "GRPO_EMU_LOST_AT="+strconv.Itoa(at))
		if out == "done" {
			require.Greater(t, at, 10)
			break
		}
		require.Contains(t, out, "CUDA_ERROR_UNKNOWN (999)")
		if strings.HasPrefix(out, "error: opening: ") {
			continue // it was lost before it was in use
		}
		require.True(t, ok, out)
		require.Contains(t, out, "nothing more runs on it in this process")
		seen[out] = true
	}
	require.Greater(t, len(seen), 8, "each says what it was about")
}
