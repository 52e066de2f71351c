package rundir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A line that found no room leaves no part: after making room, the next one begins a new line.
func TestALineIsWrittenWholeOrNotAtAll(t *testing.T) {
	d, err := Claim(filepath.Join(t.TempDir(), "run"))
	require.NoError(t, err)
	defer d.Close()
	_, err = d.Begin([]string{"log"}, Point{})
	require.NoError(t, err)
	one := strings.Repeat("1", 1<<20) // so large that nobody else needs the space meanwhile
	require.NoError(t, d.Append("log", one))

	var was syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1<<20 + 5, Max: was.Max}))
	err = d.Append("log", "two")
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was))
	require.ErrorIs(t, err, syscall.EFBIG)

	require.NoError(t, d.Append("log", "three"))
	text, err := os.ReadFile(d.File("log"))
	require.NoError(t, err)
	require.True(t, string(text) == "\""+one+"\"\n\"three\"\n", "the end is %q", text[1<<20:])
}

// A checkpoint that could not be written does not exist, and no log lines are set aside with it.
func TestWhatWasNotSavedIsNotOnRecord(t *testing.T) {
	d, err := Claim(filepath.Join(t.TempDir(), "run"))
	require.NoError(t, err)
	defer d.Close()
	_, err = d.Begin([]string{CheckpointLog}, Point{})
	require.NoError(t, err)
	for step, full := range []error{nil, syscall.ENOSPC, nil} {
		require.ErrorIs(t, d.Save(step, func(string) error { return errors.Join(d.Append(CheckpointLog, step), full) }), full)
	}
	text, err := os.ReadFile(d.File(CheckpointLog))
	require.NoError(t, err)
	require.Equal(t, "0\n2\n", string(text))
}

// If lines after a point cannot be set aside, they stay, and the error names the intended place, and what to do.
func TestWhatFindsNoRoomAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run")
	d, err := Claim(path)
	require.NoError(t, err)
	defer d.Close()
	_, err = d.Begin([]string{"log"}, Point{})
	require.NoError(t, err)
	require.NoError(t, d.Append("log", strings.Repeat("1", 1<<20)))

	var was syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1 << 19, Max: was.Max}))
	_, err = d.Begin([]string{"log"}, Point{})
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was))
	aside := filepath.Join(path, Checkpoints, RolledBackDir, "after_step_000000")
	require.EqualError(t, err, "checkpoints and log lines after step 0 were not moved to "+aside+": write log: file too large; "+
		"let files be larger (ulimit -f), then type the same again")

	info, err := os.Stat(d.File("log"))
	require.NoError(t, err)
	require.EqualValues(t, 1<<20+3, info.Size())
	require.NoDirExists(t, aside+partial)
	got, err := d.Begin([]string{"log"}, Point{})
	require.NoError(t, err)
	require.Equal(t, aside, got)
}

// A log that cannot be read is not truncated, since the lines after the point would be lost.
func TestALogThatCannotBeReadIsNotCut(t *testing.T) {
	path := t.TempDir()
	d, err := Claim(path)
	require.NoError(t, err)
	defer d.Close()
	logs := []string{"first", "second"}
	require.NoError(t, os.WriteFile(d.File("second"), []byte("a\n"), 0o644))
	require.NoError(t, os.Mkdir(d.File("first"), 0o755))
	_, err = d.setAside(logs, Point{})
	require.ErrorIs(t, err, syscall.EISDIR)

	require.NoError(t, os.Remove(d.File("first")))
	require.NoError(t, os.WriteFile(d.File("first"), []byte("a\n"), 0o644))
	require.NoError(t, d.keepEnds(filepath.Join(path, "kept"), logs, Point{}))
	err = d.keepEnds(filepath.Join(d.File("first"), "kept"), logs, Point{})
	require.ErrorIs(t, err, syscall.ENOTDIR, "the place to set lines aside cannot be made")

	require.NoError(t, os.Remove(d.File("second")))
	require.NoError(t, os.Mkdir(d.File("second"), 0o755))
	_, err = d.Begin(logs, Point{Logs: map[string]int64{"first": 2}})
	require.ErrorIs(t, err, syscall.EISDIR)
}

// An open run goes back with all its logs except the one that reports it, and what it repeats is kept beside what was set aside.
func TestARunThatIsOpenGoesBack(t *testing.T) {
	path := t.TempDir()
	d, err := Claim(path)
	require.NoError(t, err)
	defer d.Close()
	_, err = d.Begin([]string{"steps", "other", "tells"}, Point{})
	require.NoError(t, err)
	p := Point{Step: 1, Logs: map[string]int64{}, Files: []string{"settings", "none"}}
	for _, log := range []string{"steps", "other", "tells"} {
		require.NoError(t, d.Append(log, 1))
		p.Logs[log] = 2
		require.NoError(t, d.Append(log, 2))
	}
	require.NoError(t, d.WriteJSON("settings", "was"))
	aside, err := d.RollBack(p, "tells")
	require.NoError(t, err)
	for file, want := range map[string]string{d.File("steps"): "1\n", d.File("other"): "1\n", d.File("tells"): "1\n2\n",
		filepath.Join(aside, "steps"): "2\n", filepath.Join(aside, "other"): "2\n", filepath.Join(aside, "settings"): "\"was\"\n"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, want, string(text), file)
	}
	require.NoFileExists(t, filepath.Join(aside, "tells"))

	half := filepath.Join(filepath.Dir(aside), "after_step_000002"+partial) // of a process that was killed meanwhile
	require.NoError(t, os.Mkdir(half, 0o755))
	_, err = d.Begin([]string{"steps", "other", "tells"}, p)
	require.NoError(t, err)
	require.NoDirExists(t, half)
}

// If two processes claim a new directory at once, the second does not train in the first one's run.
func TestARunThatAnotherBeganMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run")
	second, err := Claim(path)
	require.NoError(t, err)
	defer second.Close()
	first := begun(t, path, 0)
	require.NoError(t, first.Append("log.jsonl", 1))
	require.NoError(t, first.Close())
	_, err = second.Begin([]string{"log.jsonl"}, Point{})
	require.ErrorContains(t, err, "another process has trained in "+path+" meanwhile; choose another one")
}
