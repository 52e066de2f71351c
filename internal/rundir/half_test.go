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

// A line that finds no room is not there by half: who makes room and writes on begins a line of its own.
func TestALineIsWrittenWholeOrNotAtAll(t *testing.T) {
	d, err := Claim(filepath.Join(t.TempDir(), "run"))
	require.NoError(t, err)
	defer d.Close()
	_, err = d.Begin([]string{"log"}, Point{})
	require.NoError(t, err)
	one := strings.Repeat("1", 1<<20) // so that nobody else writes to a file that is as large meanwhile
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

// A checkpoint that could not be written was not made, and none of the lines of others goes with it.
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

// What a run has beyond a point stays where it is if it cannot be set aside. What is told names the place that was meant, and what to do.
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
	aside := filepath.Join(path, Checkpoints, Aside, "after_step_000000")
	require.EqualError(t, err, "what the run has after step 0 was not set aside in "+aside+": write log: file too large; "+
		"let files be larger (ulimit -f), then type the same again")

	info, err := os.Stat(d.File("log"))
	require.NoError(t, err)
	require.EqualValues(t, 1<<20+3, info.Size())
	require.NoDirExists(t, aside+partial)
	got, err := d.Begin([]string{"log"}, Point{})
	require.NoError(t, err)
	require.Equal(t, aside, got)
}
