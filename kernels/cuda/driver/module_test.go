//go:build gpu

package driver

import (
	"errors"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/kernels/cuda/internal/apart"
)

// ptx is all that the driver of the tests wants to see; its kernels are its own.
const ptx = ".version 7.0\n.target sm_80\n.address_size 64\n"

// kernel loads the module of the tests and finds one of its kernels.
func kernel(t *testing.T, d *Device, name string) *Function {
	t.Helper()
	m, err := d.Load(ptx)
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
	d := opened(t)
	s := stream(t, d)
	add := kernel(t, d, "add")
	require.Equal(t, []any{"add", 96, 24, 1024, 512}, []any{add.Name(), add.Registers, add.Local, add.Shared, add.Threads})
	m, err := d.Alloc(16)
	require.NoError(t, err)
	moves := transfers(t, s)
	require.NoError(t, moves.Upload(m.At, floats(1, 2, 3, 4)))
	launch := func() error {
		return s.Launch(add, Dim{X: 1}, Dim{X: 4}, 0, Address(m.At), Float(0.5), Int(3))
	}
	require.NoError(t, launch())
	back := make([]byte, 16)
	require.NoError(t, s.Read(back, m.At))
	require.Equal(t, floats(1.5, 2.5, 3.5, 4), back)
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = launch() }), "a launch is made hundreds of times a step")

	err = s.Launch(add, Dim{X: 1}, Dim{X: 1024}, 0)
	require.EqualError(t, err, "kernel add, {1 0 0} blocks of {1024 0 0} threads: card 0 (Paper Card 0): launching: error 701")
	require.NotErrorIs(t, err, ErrLost)
	require.ErrorContains(t, s.Launch(add, Dim{}, Dim{}, 0, make([]Arg, 33)...), "kernel add: 33 arguments, expected at most 32")
	require.NoError(t, m.Free())
}

func TestSharedMemory(t *testing.T) {
	d := opened(t)
	s := stream(t, d)
	wide := kernel(t, d, "wide")
	require.NoError(t, s.Launch(wide, Dim{}, Dim{}, 47<<10))
	require.EqualError(t, s.Launch(wide, Dim{}, Dim{}, 48<<10),
		"kernel wide: 49152 bytes of dynamic shared memory, expected at most 48128: AllowShared comes first")
	require.NoError(t, wide.AllowShared(90000))
	require.NoError(t, s.Launch(wide, Dim{}, Dim{}, 90000))
	require.NoError(t, wide.AllowShared(1), "less than there is")
	require.NoError(t, s.Launch(wide, Dim{}, Dim{}, 90000))
	require.EqualError(t, wide.AllowShared(100353),
		"card 0 (Paper Card 0): kernel wide: 100353 bytes of shared memory for a block, expected at most 100352")
}

// PTX that the driver does not take comes with what its compiler says, in one line.
func TestRefusedKernels(t *testing.T) {
	d := opened(t)
	_, err := d.Load("nonsense")
	var refused *Refused
	require.ErrorAs(t, err, &refused)
	require.EqualError(t, err, "card 0 (Paper Card 0): loading kernels: CUDA_ERROR_INVALID_PTX (218); its compiler says: line 1; syntax error")
	t.Setenv("FAKE_CUDA_LOG", "1\n2\n\n3\n4\n5\n6\n7\n8\n9\n10\n")
	_, err = d.Load("nonsense")
	require.ErrorContains(t, err, "its compiler says: 1; 2; 3; 4; 5; 6; 7; 8; and 2 lines more")
	t.Setenv("FAKE_CUDA_PTX", "2")
	_, err = d.Load(ptx)
	require.ErrorIs(t, err, ErrMemory)
	require.NotErrorAs(t, err, new(*Refused))
	require.NoError(t, os.Unsetenv("FAKE_CUDA_PTX"))

	m, err := d.Load(ptx)
	require.NoError(t, err)
	_, err = m.Function("subtract")
	require.EqualError(t, err, "kernel subtract: card 0 (Paper Card 0): looking for a kernel: error 500")
	require.NoError(t, m.Close())
}

// A kernel that goes wrong is told of at the next call, and every call after that says the same.
func TestACrash(t *testing.T) {
	out, ok := apart.Run(t, "crash")
	require.True(t, ok, out)
	const want = "card 0 (Paper Card 0): copying from it: CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered; " +
		"the last kernel launched was crash; nothing more runs on it in this process: look at dmesg for Xid, and start again"
	require.Equal(t, want+"\n"+want, out)
}

// A card that falls off the bus, at whichever call, is one typed error from there on, and closing says nothing more.
func TestTheCardIsLost(t *testing.T) {
	seen := map[string]bool{}
	for at := 1; ; at++ {
		out, ok := apart.Run(t, "work", "FAKE_CUDA_LOSE="+strconv.Itoa(at))
		require.True(t, ok, out)
		if out == "done" {
			require.Greater(t, at, 10)
			break
		}
		require.Contains(t, out, "CUDA_ERROR_UNKNOWN (999)")
		require.Contains(t, out, "nothing more runs on it in this process")
		seen[out] = true
	}
	require.Greater(t, len(seen), 8, "each says what it was about")
}
