//go:build !gpu

package rebuild

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/kernels/cuda/emu"
)

// TestInEarnest runs `go run ./cmd/grpo doctor` as on a machine with a card: an emulated one, and everything else real. `make rebuild`
// runs it; without a build cache it takes minutes.
func TestInEarnest(t *testing.T) {
	if os.Getenv("GRPO_REBUILD") == "" {
		t.Skip("set GRPO_REBUILD=1: it compiles the whole program with the GPU backend")
	}
	home, touched := t.TempDir(), filepath.Join(t.TempDir(), "touched") // created when the driver is loaded
	emulated, err := emu.Library()
	require.NoError(t, err)
	compiled, err := exec.Command("go", "env", "GOCACHE").Output()
	require.NoError(t, err)
	run := func(name string, args ...string) string {
		cmd := exec.Command(name, args...)
		cmd.Dir = "../.."
		cmd.Env = append(os.Environ(), "GRPO_CUDA_LIB="+emulated, "GRPO_EMU_COUNTS="+touched, "XDG_CACHE_HOME="+home,
			"GOCACHE="+strings.TrimSpace(string(compiled)))
		began := time.Now()
		out, err := cmd.CombinedOutput()
		t.Logf("%s %v: %s", filepath.Base(name), args, time.Since(began).Round(time.Second))
		require.NoError(t, err, string(out))
		return string(out)
	}
	run("go", "run", "./cmd/grpo", "--help")
	run("go", "run", "./cmd/grpo", "max_steps=1", "--dry-run", "device=cpu")
	require.NoFileExists(t, touched, "who does not compute, or not on a card, does not wake it")

	const line, card = "building grpo with its GPU backend", "card 0 (Emulated device): compute capability 8.0"
	first := run("go", "run", "./cmd/grpo", "doctor")
	require.Equal(t, 1, strings.Count(first, line), first)
	require.Contains(t, first, card)
	require.FileExists(t, touched)
	again := run("go", "run", "./cmd/grpo", "doctor")
	require.NotContains(t, again, line, "the second start does not build again")
	require.Contains(t, again, card)

	programs, err := filepath.Glob(filepath.Join(home, "grpo/gpu/*/grpo"))
	require.NoError(t, err)
	require.Len(t, programs, 1)
	binary, err := elf.Open(programs[0])
	require.NoError(t, err)
	defer binary.Close()
	libraries, err := binary.ImportedLibraries()
	require.NoError(t, err)
	require.NotContains(t, strings.Join(libraries, " "), "libcuda")

	// The program with the backend does not load the driver where it does not need it: also not in sandboxes, whose processes run the same
	// program.
	require.NoError(t, os.Remove(touched))
	run(programs[0], "--help")
	run(programs[0], "device=cpu", "max_steps=1", "eval_every=-1", "--quiet", "run_dir="+filepath.Join(t.TempDir(), "run"))
	require.NoFileExists(t, touched)
}
