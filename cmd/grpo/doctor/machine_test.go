package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/kernels/cpu"
)

// doctor lists the orders of sums that this processor has instructions for, and why others are missing.
func TestDoctorOnOrders(t *testing.T) {
	t.Setenv("GRPO_CPU", "")
	require.Equal(t, Finding{Name: "orders", OK: true, Found: "serial and tiles have instructions; order=auto takes tiles"},
		examineOrders(cpu.TileUnit{Native: true}))
	const emulated = "serial has instructions, and order=auto takes it; tiles is emulated, to the same bits: "
	require.Equal(t, emulated+"no tiles", examineOrders(cpu.TileUnit{Reason: "no tiles"}).Found)
	t.Setenv("GRPO_CPU", "avx2")
	require.Equal(t, emulated+"GRPO_CPU is avx2", examineOrders(cpu.TileUnit{Native: true}).Found)
	require.Equal(t, emulated+"no tiles", examineOrders(cpu.TileUnit{Reason: "no tiles"}).Found)
}
