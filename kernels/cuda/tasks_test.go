//go:build gpu

package cuda

import (
	"os"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels/cuda/internal/apart"
)

// tasks are for processes on the emulated device, whose settings are their own.
var tasks = apart.Tasks{}

func TestMain(m *testing.M) {
	tasks.Main()
	os.Exit(m.Run())
}
