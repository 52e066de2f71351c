package destination

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is to be typed can be pasted into a shell, also where a folder has a space in its name.
func TestWhatIsToBeTypedIsOneWord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "run"), 0o755))
	err := Place{Flag: "--out", Path: dir, Name: "steps.csv"}.Check()
	require.ErrorContains(t, err, "type --out '"+filepath.Join(dir, "steps.csv")+"'")
	err = Place{Flag: "--out", Path: filepath.Join(dir, "run", "steps.csv"), Run: filepath.Join(dir, "run")}.Check()
	require.ErrorContains(t, err, "such as --out '"+filepath.Join(dir, "steps.csv")+"'")
}
