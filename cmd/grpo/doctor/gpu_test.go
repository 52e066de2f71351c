package doctor

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels/cuda/driver"
)

// A card is listed with its properties; a fault of it, or of the program, comes with what to do.
func TestDoctorOnCards(t *testing.T) {
	f := aboutDriver(driver.Driver{Library: "/lib/libcuda.so.1", Version: driver.Version{Major: 12, Minor: 4}, Cards: []driver.Card{
		{Name: "One", Capability: driver.Version{Major: 9}, Processors: 132, Total: 80 << 30, Free: 79 << 30},
		{Index: 1, Name: "Two", Trouble: errors.New("card 1 (Two) is busy")},
	}}, nil)
	require.True(t, f.OK)
	require.Equal(t, "/lib/libcuda.so.1, CUDA 12.4, 2 cards", f.Found)
	require.Equal(t, []string{"card 0 (One): compute capability 9.0, 132 multiprocessors, 80.0 GiB of memory, 79.0 GiB of it free",
		"card 1 (Two) is busy"}, f.Notes[:2])
	require.Contains(t, f.Notes[2], "all computation runs there")
	require.Contains(t, f.Notes[3], "tested on an NVIDIA H100, and on an emulated card in every test; grpo bench card")
	var out strings.Builder
	Findings{f}.Write(&out)
	require.Contains(t, out.String(), "✓ gpu          /lib/libcuda.so.1, CUDA 12.4, 2 cards\n    - card 0 (One): ")

	t.Setenv("GRPO_CUDA_LIB", "/no/such/library.so")
	if f = examineGPU(t.Context(), nil); !driver.Built {
		require.Equal(t, Finding{Name: "gpu", OK: true, Found: "no NVIDIA driver found; grpo computes on the processors"}, f)
	}
	f = aboutDriver(driver.Driver{}, badinput.Errorf("it does not start: restart the machine"))
	require.Equal(t, Finding{Name: "gpu", Found: "an NVIDIA driver that cannot be used",
		Do: "it does not start: restart the machine"}, f)

	closed := driver.Card{Name: "One", Trouble: errors.New("card 0 (One) is closed")}
	f = aboutDriver(driver.Driver{Cards: []driver.Card{closed}}, nil)
	require.False(t, f.OK)
	require.Equal(t, []string{"card 0 (One) is closed"}, f.Notes)
	require.Equal(t, "device=auto takes card 0, which does not work: type device=cpu", f.Do)
	f = aboutDriver(driver.Driver{Cards: []driver.Card{closed, {Index: 1, Name: "Two"}}}, nil)
	require.Equal(t, "device=auto takes card 0, which does not work: type device=cuda:1, or device=cpu", f.Do)
}
