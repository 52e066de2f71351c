package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels/cuda"
)

// noDriver is the driver of a machine without one, whatever this machine has.
const noDriver = "/no/such/library.so"

func TestDoctor(t *testing.T) {
	needsCells(t)
	t.Setenv("SANDBOX_URL", "")
	t.Setenv("GRPO_CUDA_LIB", noDriver)
	out, errOut, code := shell(t, "", "doctor")
	require.Zero(t, code, errOut)
	for _, want := range []string{"✓ sandbox", "isolation ", "✓ network", "not protected:", "✓ interpreter", "✓ processors",
		"✓ memory", "✓ disk", "free in", "✓ gpu "} {
		require.Contains(t, out, want)
	}
	out, errOut, code = shell(t, "", "doctor", "--json")
	require.Zero(t, code, errOut)
	var report struct {
		OK       bool
		Findings []finding
	}
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.True(t, report.OK)
	require.Equal(t, "sandbox", report.Findings[0].Name)
	require.Greater(t, len(report.Findings[0].Claims), 5)
	for _, c := range report.Findings[0].Claims {
		require.True(t, c.Holds, c)
		require.NotEmpty(t, c.Saw)
	}
}

// What is missing is named, with what to do about it.
func TestDoctorFindsWhatIsMissing(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	t.Setenv("SANDBOX_URL", server.URL)
	t.Setenv("GRPO_CUDA_LIB", noDriver)
	out, errOut, code := shell(t, "", "doctor", "--python", "no-such-python")
	require.Equal(t, exitBadInput, code)
	require.Contains(t, out, "✗ sandbox      python \"no-such-python\": not found")
	require.Contains(t, out, "→ install python3")
	require.Contains(t, out, "✗ server")
	require.Contains(t, out, "the server answered 404")
	require.Contains(t, out, "→ start the server, or unset SANDBOX_URL")
	require.Contains(t, errOut, "this machine lacks: sandbox, server")
}

// A card is told of with what it is good for; what is wrong with it, or with the program, comes with what to do.
func TestDoctorOnCards(t *testing.T) {
	f := aboutDriver(cuda.Driver{Library: "/lib/libcuda.so.1", Version: cuda.Version{Major: 12, Minor: 4}, Cards: []cuda.Card{
		{Name: "One", Capability: cuda.Version{Major: 9}, Processors: 132, Total: 80 << 30, Free: 79 << 30},
		{Index: 1, Name: "Two", Trouble: errors.New("card 1 (Two) is busy")},
	}}, nil)
	require.True(t, f.OK)
	require.Equal(t, "/lib/libcuda.so.1, CUDA 12.4, 2 cards", f.Found)
	require.Equal(t, []string{"card 0 (One): compute capability 9.0, 132 multiprocessors, 80.0 GiB of memory, 79.0 GiB of it free",
		"card 1 (Two) is busy"}, f.Notes[:2])
	require.Contains(t, f.Notes[2], "runs there: nothing yet")
	require.Contains(t, f.Notes[3], "never run on a card: all of it")
	var out strings.Builder
	findings{f}.write(&out)
	require.Contains(t, out.String(), "✓ gpu          /lib/libcuda.so.1, CUDA 12.4, 2 cards\n    - card 0 (One): ")

	t.Setenv("GRPO_CUDA_LIB", noDriver)
	if f = examineGPU(t.Context(), nil); !cuda.Built {
		require.Equal(t, finding{Name: "gpu", OK: true, Found: "none that an NVIDIA driver answers for; grpo computes on the processors"}, f)
	}
	f = aboutDriver(cuda.Driver{}, badinput.Errorf("it does not start: restart the machine"))
	require.Equal(t, finding{Name: "gpu", OK: true, Found: "an NVIDIA driver, which cannot be used",
		Do: "it does not start: restart the machine"}, f)
}
