package sweep

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Relative paths in a sweep's settings refer to where it was begun, from wherever it is resumed.
func TestASweepGoesOnWhereItWasBegun(t *testing.T) {
	began, elsewhere := t.TempDir(), t.TempDir()
	t.Chdir(began)
	plan := &Plan{Words: []string{"seed=0..1"}}
	plan.SetBase(base)
	j, err := Open("s", plan)
	require.NoError(t, err)
	require.NoError(t, j.Begin())
	again, err := j.Chdir()
	require.NoError(t, err)
	require.False(t, again, "the sweep is in its directory")
	require.Equal(t, filepath.Join("s", ResultsFile), j.ResultsPath(), "the path is shown as it was typed")

	t.Chdir(elsewhere)
	from, err := filepath.Rel(elsewhere, filepath.Join(began, "s"))
	require.NoError(t, err)
	for _, gone := range []bool{false, true} {
		t.Chdir(elsewhere)
		if j, err = Open(from, nil); gone {
			j.Directory += "/gone"
		}
		require.NoError(t, err)
		again, err = j.Chdir()
		require.NoError(t, err)
		here, err := os.Getwd()
		require.NoError(t, err)
		require.Equal(t, map[bool]string{false: began, true: elsewhere}[gone], here)
		require.Equal(t, !gone, again)
		require.Equal(t, filepath.Join(began, "s", ResultsFile), j.ResultsPath())
		require.FileExists(t, j.BasePath())
	}
}
