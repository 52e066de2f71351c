package sweep

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// excludeRuns opens the sweep of a directory, excludes runs, and records that.
func excludeRuns(t *testing.T, dir string, names ...string) (*Journal, error) {
	t.Helper()
	j, err := Claim(dir, nil)
	require.NoError(t, err)
	if err = j.Exclude(names); err == nil {
		err = j.Begin()
	}
	require.NoError(t, j.Close())
	return j, err
}

// Halving that waits for a run which this machine cannot make continues without it, and keeps the results of the others.
func TestARaceGoesOnWithoutARunThatWasTakenOut(t *testing.T) {
	words, rungs, dir := []string{"seed=0..3", "max_steps=4"}, Rungs(4, 2), t.TempDir()
	fails := map[string]error{"seed=1": errors.New("no memory")}
	_, err := (&fakeCommand{fails: fails}).drive(t, dir, 1, words, rungs)
	require.ErrorContains(t, err, "to try it again, or with --without seed=1 to continue without it")
	_, err = excludeRuns(t, dir, "seed=1")
	require.NoError(t, err)
	for i, want := range [][]string{{"seed=2 to 4", "seed=3 to 4"}, nil} {
		p := &fakeCommand{fails: fails}
		j, err := p.drive(t, dir, 1, words, rungs)
		require.NoError(t, err, "excluded runs are remembered, time %d", i)
		require.Equal(t, want, p.calls)
		require.Contains(t, results(t, j), "seed=1,taken out,,")
		c, _, err := j.Results()
		require.NoError(t, err)
		require.Contains(t, strings.Join(c.Notes, "\n"), "seed=1 was taken out of the sweep, and is not compared")
		page, err := c.Page().HTML()
		require.NoError(t, err)
		require.Contains(t, string(page), "seed=1 was taken out of the sweep")
		failed, again := j.Failures()
		require.Equal(t, []int{0, 0}, []int{failed, again})
	}
	text, err := os.ReadFile(filepath.Join(dir, File))
	require.NoError(t, err)
	require.Contains(t, string(text), `"state": "taken out"`, "a state that older releases neither make nor compare")
	j, err := excludeRuns(t, dir, "seed=1")
	require.NoError(t, err, "a run may be excluded again")
	require.EqualError(t, j.Readmit([]string{"seed=1"}),
		"--with: the race dropped others at step 2, which seed=1 had not reached; begin another sweep in another --dir")
}

// A run that was excluded by mistake can be included again, and the sweep ends as if it had never been excluded.
func TestARunIsTakenBack(t *testing.T) {
	words, rungs := []string{"seed=0..3", "max_steps=4"}, Rungs(4, 2)
	whole, err := (&fakeCommand{}).drive(t, t.TempDir(), 1, words, rungs)
	require.NoError(t, err)
	dir := t.TempDir()
	_, err = (&fakeCommand{fails: map[string]error{"seed=1": errors.New("no memory")}}).drive(t, dir, 1, words, rungs)
	require.Error(t, err)
	_, err = excludeRuns(t, dir, "seed=1,seed=2")
	require.NoError(t, err)
	j, err := Claim(dir, nil)
	require.NoError(t, err)
	require.ErrorContains(t, j.Readmit([]string{"seed=0"}), "--with: seed=0 was not taken out, it is waiting; leave it out of --with")
	require.ErrorContains(t, j.Readmit([]string{"seed=7"}), `--with: found "seed=7", expected names of runs; these are seed=0`)
	require.NoError(t, j.Readmit([]string{"seed=2,seed=1"}))
	require.NoError(t, j.Begin())
	require.NoError(t, j.Close())
	j, err = (&fakeCommand{}).drive(t, dir, 1, words, rungs)
	require.NoError(t, err)
	require.Equal(t, results(t, whole), results(t, j))
}

// Without halving, an excluded run is not tried again; names may have commas, and an unknown name is refused.
func TestARunIsTakenOutByItsName(t *testing.T) {
	words, dir := []string{"seed=0..1", "max_steps=2,4"}, t.TempDir()
	lost := map[string]error{"seed=0,max_steps=4": ErrDiverged, "seed=1,max_steps=2": errors.New("killed")}
	_, err := (&fakeCommand{fails: lost}).drive(t, dir, 1, words, nil)
	require.NoError(t, err)
	for typed, says := range map[string]string{
		"seed=0":                    `--without: found "seed=0", expected names of runs; these are seed=0,max_steps=2 seed=0,max_steps=4 seed=1,`,
		"seed=0,max_steps=4,seed=9": `found "seed=9", expected names of runs`,
		"":                          `found "", expected names of runs`,
		"seed=0,max_steps=2":        "seed=0,max_steps=2 is done: it has its result",
	} {
		_, err := excludeRuns(t, dir, typed)
		require.ErrorContains(t, err, says)
	}
	j, err := excludeRuns(t, dir, "seed=0,max_steps=4,seed=1,max_steps=2")
	require.NoError(t, err)
	require.Equal(t, []string{"seed=0,max_steps=4", "seed=1,max_steps=2"}, j.RemovedRuns())
	p := &fakeCommand{}
	j, err = p.drive(t, dir, 1, words, nil)
	require.NoError(t, err)
	require.Empty(t, p.calls)
	require.Contains(t, results(t, j), "max_steps=4\",taken out")
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "runs")))
	_, err = excludeRuns(t, dir, "seed=0,max_steps=2", "seed=1,max_steps=4")
	require.ErrorContains(t, err, "no run of the sweep would be left")
}
