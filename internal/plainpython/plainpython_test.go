package plainpython

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The interpreter that a script starts comes first; a command that is no script, or starts none, is unchanged.
func TestFirst(t *testing.T) {
	SetPath()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not on PATH")
	}
	before := os.Getenv("PATH")
	SetPath()
	require.Equal(t, before, os.Getenv("PATH"))
	for script, found := range map[string]string{"exec '" + python + "' \"$@\"": python, "exit 1": ""} {
		place := filepath.Join(t.TempDir(), "python3")
		require.NoError(t, os.WriteFile(place, []byte("#!/bin/sh\n"+script+"\n"), 0o755))
		t.Setenv("PATH", filepath.Dir(place)+string(os.PathListSeparator)+before)
		SetPath()
		got, err := exec.LookPath("python3")
		require.NoError(t, err)
		if found == "" {
			require.Equal(t, place, got)
		} else {
			require.NotEqual(t, place, got)
		}
	}
}
