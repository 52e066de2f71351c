//go:build gpu

package backendtest

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cuda"
	"github.com/seed-7879b91d/grpo/kernels/cuda/driver"
	"github.com/seed-7879b91d/grpo/kernels/cuda/emu"
)

// findings is the file that the device writes what it finds into: there is none where that is nothing.
var findings = filepath.Join(os.TempDir(), fmt.Sprintf("grpo-card-%d", os.Getpid()))

// emulated makes the emulated device the driver of this process, and of those that it starts.
var emulated = sync.OnceValue(func() error {
	library, err := emu.Library()
	os.Setenv("GRPO_CUDA_LIB", library)
	os.Setenv("GRPO_EMU_REPORT", findings)
	return err
})

// Emulate has this process, and those that it starts, find the emulated device. At the end of the test it must have found nothing.
func Emulate(t testing.TB) {
	t.Helper()
	if err := emulated(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if told, err := os.ReadFile(findings); err == nil {
			t.Errorf("the device has found:\n%s", told)
			os.Remove(findings)
		}
	})
}

// Card opens the emulated device, which the caller closes.
func Card(t testing.TB) kernels.Backend {
	t.Helper()
	Emulate(t)
	b, err := cuda.OpenBackend(0, driver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}
