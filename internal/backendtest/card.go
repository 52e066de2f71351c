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

// findings is the file for the emulated device's findings; it does not exist if there are none.
var findings = filepath.Join(os.TempDir(), fmt.Sprintf("grpo-card-%d", os.Getpid()))

// emulated makes the emulated device the driver of this process and its child processes.
var emulated = sync.OnceValue(func() error {
	library, err := emu.Library()
	os.Setenv("GRPO_CUDA_LIB", library)
	os.Setenv("GRPO_EMU_REPORT", findings)
	return err
})

// Emulate uses the emulated device in this process and its child processes. The test fails if the device has findings.
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
