//go:build gpu

package conformance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cuda"
	"github.com/seed-7879b91d/grpo/kernels/cuda/driver"
	"github.com/seed-7879b91d/grpo/kernels/cuda/emu"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest"
)

// findings is the file to which the device writes its findings.
var findings string

func TestMain(m *testing.M) { os.Exit(onTheEmulatedDevice(m)) }

func onTheEmulatedDevice(m *testing.M) int {
	if _, err := exec.LookPath("gcc"); err != nil {
		fmt.Println("skipped: there is no gcc here, which builds the emulated device")
		return 0
	}
	library, err := emu.Library()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dir, err := os.MkdirTemp("", "grpo-conformance-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	findings = filepath.Join(dir, "findings")
	os.Setenv("GRPO_CUDA_LIB", library)
	os.Setenv("GRPO_EMU_REPORT", findings)
	os.Setenv("GRPO_EMU_MEMORY", "128M")
	return m.Run()
}

// opened returns a function that makes backends on the emulated device. The end of the test requires that all its memory has been freed,
// and that the device has reported no mistake.
func opened(t *testing.T) func() *cuda.Backend {
	t.Helper()
	d, err := driver.Open(0, driver.Options{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, d.Close())
		reports, err := os.ReadFile(findings)
		if !os.IsNotExist(err) {
			require.NoError(t, err)
		}
		require.Empty(t, string(reports), "the device found something")
	})
	return func() *cuda.Backend {
		b, err := cuda.NewBackend(d)
		require.NoError(t, err)
		return b
	}
}

// The whole contract: memory, misuse, every operation against the oracle; rows alone and in batches, and sums twice, to the bit.
func TestContract(t *testing.T) {
	open := opened(t)
	kerneltest.RunDevice(t, kerneltest.OnCard, 4, func() kernels.Backend { return kernels.Checked(open()) })
}

// A card reports its peak rates.
func TestPeak(t *testing.T) {
	b := opened(t)()
	defer func() { require.NoError(t, b.Close()) }()
	peak := b.Peak()
	require.NoError(t, b.Sync())
	require.Positive(t, min(peak.Flops, peak.Products, peak.Bytes))
}

// Unreferenced memory is freed when it is needed, and a full card is an error after which work can continue.
func TestMemoryComesBack(t *testing.T) {
	b := opened(t)()
	defer func() { require.NoError(t, b.Close()) }()
	const n = 6 << 20 // of 4 bytes; the card has 128 MB
	for range 12 {
		x, err := b.Alloc(kernels.F32, n)
		require.NoError(t, err)
		b.Zero(x.Slice(n-1, n))
	}
	_, err := b.Alloc(kernels.F32, 6*n)
	require.ErrorIs(t, err, driver.ErrMemory)
	require.ErrorContains(t, err, "allocating 144.0 MiB where ")
	_, err = b.NewMatrix(kernels.BF16, 6*n, 2)
	require.ErrorIs(t, err, driver.ErrMemory)

	x, err := b.Alloc(kernels.F32, 3)
	require.NoError(t, err)
	b.Upload(x, []float32{1, 2, 3})
	b.Add(x, x, x, 3)
	require.Equal(t, []float32{2, 4, 6}, numbers(t, b, x))
	require.NoError(t, b.Sync())
}
