//go:build gpu

package driver

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels/cuda/internal/subprocess"
)

// A binary with the GPU backend starts on any machine, and does not load a driver before one is needed.
func TestNothingTouchesTheDriver(t *testing.T) {
	touched := filepath.Join(t.TempDir(), "touched")
	env := "GRPO_EMU_COUNTS=" + touched
	out, ok := subprocess.Run(t, "nothing", env)
	require.True(t, ok, out)
	out, ok = subprocess.Run(t, "before", env)
	require.True(t, ok, out)
	require.Equal(t, "NotInitialized NotInitialized -1", out)
	require.NoFileExists(t, touched)
	out, ok = subprocess.Run(t, "probe", env)
	require.True(t, ok, out)
	require.FileExists(t, touched, "the library prints when it is loaded")
}

func TestProbe(t *testing.T) {
	t.Setenv("GRPO_EMU_DEVICES", "2")
	driver, err := Probe(context.Background())
	require.NoError(t, err)
	require.Equal(t, os.Getenv(libraryVariable), driver.Library)
	require.Equal(t, Version{12, 4}, driver.Version)
	require.Len(t, driver.Cards, 2)
	require.Equal(t, Card{Index: 1, Name: "Test Card", Capability: Version{8, 0}, Total: 1 << 29, Free: 1 << 29, Processors: 4,
		Shared: 166912}, driver.Cards[1])
}

// Each reason why a driver cannot be used is reported in one line that says what to do.
func TestDriversThatCannotBeUsed(t *testing.T) {
	notALibrary := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(notALibrary, []byte("no library"), 0o644))
	for _, c := range []struct{ name, env, want string }{
		{"none", libraryVariable + "=", "error: no NVIDIA driver: libcuda.so.1: cannot open shared object file: No such file or directory; " +
			"install it (in a container: start that with its GPUs), or device=cpu"},
		{"not there", libraryVariable + "=/no/such.so", "error: GRPO_CUDA_LIB: /no/such.so: cannot open shared object file"},
		{"no library", libraryVariable + "=" + notALibrary, "error: GRPO_CUDA_LIB: " + notALibrary + ": file too short"},
		{"another library", libraryVariable + "=libm.so.6", "libm.so.6 is no CUDA driver: it has no cuInit; unset it"},
		{"old", "GRPO_EMU_DRIVER=10.2", "libcuda.so.1 serves CUDA 10.2, the kernels need 11.0: install a newer NVIDIA driver, or device=cpu"},
		{"no card", "GRPO_EMU_ANSWER=cuInit:100", "libcuda.so.1 finds no card: look at nvidia-smi and at CUDA_VISIBLE_DEVICES, or device=cpu"},
		{"no cards", "GRPO_EMU_DEVICES=0", "libcuda.so.1 finds no card: "},
		{"mismatch", "GRPO_EMU_ANSWER=cuInit:803",
			"libcuda.so.1 does not start: error 803; library and kernel module are of different versions: restart"},
		{"stub", "GRPO_EMU_ANSWER=cuInit:34", "this is the stub that comes with the toolkit: take its folder out of LD_LIBRARY_PATH"},
		{"broken", "GRPO_EMU_ANSWER=cuInit:999",
			"libcuda.so.1 does not start: CUDA_ERROR_UNKNOWN (999): unknown error; look at nvidia-smi and at dmesg, or device=cpu"},
	} {
		for _, do := range []string{"probe", "open"} {
			out, ok := subprocess.Run(t, do, c.env)
			require.False(t, ok, c.name)
			require.Contains(t, out, c.want, c.name)
		}
	}
	// An old driver is reported as old, even if it does not know the card.
	out, _ := subprocess.Run(t, "open", "GRPO_EMU_DRIVER=10.2", "GRPO_EMU_ANSWER=cuInit:100")
	require.Contains(t, out, "serves CUDA 10.2")
}

// Each reason why a card cannot be used is reported in one line that says what to do.
func TestCardsThatCannotBeUsed(t *testing.T) {
	for _, c := range []struct {
		name, value string
		reason      Reason
		want        string
	}{
		{"GRPO_EMU_CAPABILITY", "7.5", CardOld, "card 0 (Test Card) has compute capability 7.5, " +
			"the kernels need 8.0 (A100, RTX 30 or newer): choose another card, or device=cpu"},
		{"GRPO_EMU_MODE", "2", Prohibited, "card 0 (Test Card) is closed to programs (compute mode Prohibited): " +
			"type nvidia-smi -i N -c DEFAULT as root, N being its number there, or device=cpu"},
		{"GRPO_EMU_BUSY", "1", Busy, "card 0 (Test Card) is busy: another process has it for itself (see nvidia-smi); end that, " +
			"choose another card, or device=cpu"},
		{"GRPO_EMU_ANSWER", "cuDevicePrimaryCtxRetain:2", NoMemory, "card 0 (Test Card) has no memory left for a context (see nvidia-smi): " +
			"end what else runs on it, choose another card, or device=cpu"},
	} {
		t.Run(c.name+c.value, func(t *testing.T) {
			t.Setenv(c.name, c.value)
			driver, err := Probe(context.Background())
			require.NoError(t, err)
			_, openErr := Open(0, Options{})
			for _, err := range []error{driver.Cards[0].Trouble, openErr} {
				require.EqualError(t, err, c.want)
				require.True(t, badinput.Is(err))
				var why *Unusable
				require.ErrorAs(t, err, &why)
				require.Equal(t, c.reason, why.Reason)
				require.False(t, why.Absent(), "auto must not silently use the processor if a card fails")
			}
		})
	}
}

func TestACardThatIsNotThere(t *testing.T) {
	t.Setenv("GRPO_EMU_DEVICES", "2")
	for _, i := range []int{-1, 2} {
		_, err := Open(i, Options{})
		require.ErrorContains(t, err, "expected one of the 2 cards here, cuda:0 to cuda:1")
		require.True(t, badinput.Is(err))
	}
	t.Setenv("GRPO_EMU_DEVICES", "0")
	_, err := Open(0, Options{})
	var why *Unusable
	require.ErrorAs(t, err, &why)
	require.True(t, why.Absent())
}

// Probe returns when its context ends, even if the driver has not answered.
func TestProbeIsGivenUp(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 100 { // the driver may have answered first
		if _, err := Probe(ctx); errors.Is(err, context.Canceled) {
			return
		}
	}
	t.Fatal("never given up")
}
