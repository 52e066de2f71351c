//go:build gpu

package cuda

import (
	"os"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels/cuda/internal/subprocess"
)

// tasks run in processes of their own on the emulated device, with settings of their own.
var tasks = subprocess.Tasks{}

func TestMain(m *testing.M) {
	tasks.Main()
	os.Exit(m.Run())
}
