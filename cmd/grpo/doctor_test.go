package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/cmd/grpo/doctor"
)

// noDriver stands for a machine without a driver, whatever this machine has.
const noDriver = "/no/such/library.so"

func TestDoctor(t *testing.T) {
	needsSandbox(t)
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
		Findings []doctor.Finding
	}
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.Contains(t, out, `"findings":[`, "the key of the findings is in lower case, like the others")
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
