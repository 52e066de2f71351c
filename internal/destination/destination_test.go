package destination

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// A path in a command to type can be pasted into a shell, even if it has a space.
func TestWhatIsToBeTypedIsOneWord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "run"), 0o755))
	err := Place{Flag: "--out", Path: dir, Name: "steps.csv"}.Check()
	require.ErrorContains(t, err, "type --out '"+filepath.Join(dir, "steps.csv")+"'")
	err = Place{Flag: "--out", Path: filepath.Join(dir, "run", "steps.csv"), Run: filepath.Join(dir, "run")}.Check()
	require.ErrorContains(t, err, "such as --out '"+filepath.Join(dir, "steps.csv")+"'")
}

// A name that is too long once the suffix of the temporary file is added is refused before the work; the longest possible one is
// accepted.
func TestNamesThatAreTooLong(t *testing.T) {
	dir := t.TempDir()
	const most, temporary = 255, 255 - atomicfile.NameOverhead // on the file systems of tests
	name := func(n int) string { return filepath.Join(dir, strings.Repeat("n", n)) }
	file, anew, folder := Place{Flag: "--out"}, Place{Flag: "--out", IsDir: true, ReplaceEmpty: true}, Place{Flag: "--out", IsDir: true}
	for _, c := range []struct {
		place Place
		path  string
		fits  bool
	}{
		{file, name(temporary), true}, {file, name(temporary + 1), false}, {file, name(most + 9), false},
		{anew, name(temporary), true}, {anew, name(temporary + 1), false}, {anew, name(most + 9), false},
		{folder, name(most), true}, {folder, name(most + 1), false}, {folder, filepath.Join(name(most+1), "a"), false},
		{anew, filepath.Join(name(most), "a"), true},
	} {
		c.place.Path = c.path
		err := c.place.Check()
		if c.fits {
			require.NoError(t, err, len(c.path))
			continue
		}
		require.ErrorContains(t, err, "the name is too long", len(c.path))
		require.True(t, badinput.Is(err))
	}
	require.ErrorContains(t, Place{Flag: "--out", Path: name(252)}.Check(), "such as --out "+name(32))
	require.ErrorContains(t, Place{Flag: "--out", Path: name(252) + ".csv"}.Check(), "such as --out "+name(32)+".csv")
	require.NoError(t, atomicfile.ResultBytes(name(most-atomicfile.NameOverhead), nil))
	require.NoError(t, os.Remove(name(most-atomicfile.NameOverhead)))
	require.NoError(t, atomicfile.WriteDir(name(most-atomicfile.NameOverhead), func(string) error { return nil }))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
}

// An unexpanded ~ does not create a folder of that name.
func TestATildeIsNoFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("HOME", "/home/ada")
	for _, folder := range []bool{true, false} {
		err := Place{Flag: "--out", Path: "~/coder", IsDir: folder}.Check()
		require.ErrorContains(t, err, "type --out /home/ada/coder, or --out './~/coder'")
		require.True(t, badinput.Is(err))
	}
	require.NoError(t, Place{Flag: "--out", Path: "./~/coder", IsDir: true}.Check())
}
