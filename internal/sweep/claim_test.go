package sweep

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// The runs of a sweep are made by one process; others may only read.
func TestOneProcessMakesTheRuns(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sweep")
	plan := &Plan{Words: []string{"seed=0..1", "max_steps=1"}}
	plan.SetBase(base)
	first, err := Claim(dir, plan)
	require.NoError(t, err)
	late, err := Claim(dir, plan)
	require.NoError(t, err, "before Begin, others may claim it too")
	require.NoDirExists(t, dir)
	require.NoError(t, first.Begin())
	_, err = Claim(dir, plan)
	require.True(t, badinput.Is(err))
	require.ErrorContains(t, err, " makes the runs of "+dir+"; wait until it is done, stop it with ")
	require.ErrorContains(t, late.Begin(), " makes the runs of "+dir)
	_, err = Open(dir, nil)
	require.NoError(t, err)
	require.NoError(t, first.Close())
	require.ErrorContains(t, late.Begin(), "another process has begun a sweep in "+dir+" meanwhile")
	require.NoError(t, late.Close())
	_, err = Claim(dir, &Plan{Words: []string{"seed=5"}})
	require.ErrorContains(t, err, "other settings")
	again, err := Claim(dir, nil)
	require.NoError(t, err, "a refused process must not hold the lock")
	require.NoError(t, again.Begin())
	require.NoError(t, again.Close())
}

// A finished run whose directory was removed is made again, with the same results, also in successive halving. One that was eliminated is
// only needed for its figures.
func TestARunThatWasRemovedIsMadeAgain(t *testing.T) {
	for name, rungs := range map[string][]int{"grid": nil, "race": Rungs(8, 3)} {
		t.Run(name, func(t *testing.T) {
			dir, words := t.TempDir(), []string{"seed=0..3", "max_steps=8"}
			first := &fakeCommand{}
			j, err := first.drive(t, dir, 1, words, rungs)
			require.NoError(t, err)
			want := results(t, j)
			require.NoError(t, os.RemoveAll(j.RunDir("seed=1")))
			again := &fakeCommand{}
			j, err = again.drive(t, dir, 1, words, rungs)
			require.NoError(t, err)
			require.Len(t, again.calls, max(1, len(rungs)), again.calls)
			require.Equal(t, "seed=1 to 8", again.calls[len(again.calls)-1])
			require.Equal(t, want, results(t, j))
			if rungs == nil {
				return
			}
			require.NoError(t, os.RemoveAll(j.RunDir("seed=2")))
			require.Contains(t, results(t, j), "seed=2,left behind,,")
		})
	}
}

// If the journal cannot be written, another directory is suggested only if nothing would be lost.
func TestAJournalThatCannotBeWritten(t *testing.T) {
	full := &fs.PathError{Op: "write", Path: "my runs/base.yaml", Err: syscall.ENOSPC}
	fixed := &fs.PathError{Op: "mkdir", Path: "my runs/logs", Err: syscall.EROFS}
	for _, c := range []struct {
		fresh bool
		err   error
		says  string
	}{
		{true, full, "--dir: write my runs/base.yaml: no space left on device; make room there, or choose another one"},
		{true, fixed, "--dir: mkdir my runs/logs: read-only file system; choose another one"},
		{false, full, "--dir: write my runs/base.yaml: no space left on device; make room there, then type grpo sweep --dir 'my runs' to resume"},
		{false, fixed, "--dir: mkdir my runs/logs: read-only file system; fix that, then type grpo sweep --dir 'my runs' to resume"},
	} {
		err := (&Journal{dir: "my runs", fresh: c.fresh}).unwritten(c.err)
		require.EqualError(t, err, c.says)
		require.Equal(t, c.fresh, badinput.Is(err))
	}
}

// unjudged is the seed of a run whose evaluation judged nothing, as when the machine failed throughout.
const unjudged = 9

// A run without results ranks last, and the journal can be written all the same.
func TestARaceWithOneThatWasNotJudged(t *testing.T) {
	j, err := (&fakeCommand{}).drive(t, t.TempDir(), 1, []string{"seed=9,8", "max_steps=4"}, Rungs(4, 2))
	require.NoError(t, err)
	require.Equal(t, []string{Eliminated, Done}, []string{j.Runs[0].State, j.Runs[1].State})
	require.Equal(t, [][]float64{{-1}, {0, 0}}, [][]float64{j.Runs[0].Scores, j.Runs[1].Scores})
}
