package openfile

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A pipe with a writer is read to its end, however late; one without a writer is not waited for.
func TestPipes(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	_, err := Read(pipe)
	require.EqualError(t, err, "read "+pipe+": a pipe that nothing writes to; name a file")
	f, err := Open(pipe)
	require.NoError(t, err)
	text, err := io.ReadAll(f)
	require.NoError(t, err)
	require.Empty(t, text)
	require.NoError(t, f.Close())

	r, w, err := os.Pipe() // like <(command)
	require.NoError(t, err)
	defer r.Close()
	go func() {
		time.Sleep(50 * time.Millisecond)
		w.WriteString("late\n")
		time.Sleep(50 * time.Millisecond)
		w.WriteString("later\n")
		w.Close()
	}()
	text, err = Read(fmt.Sprintf("/proc/self/fd/%d", r.Fd()))
	require.NoError(t, err)
	require.Equal(t, "late\nlater\n", string(text))
}

func TestFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	_, err := Read(path)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	text, err := Read(path)
	require.NoError(t, err)
	require.Empty(t, text)
	require.NoError(t, os.WriteFile(path, []byte("text"), 0o600))
	text, err = Read(path)
	require.NoError(t, err)
	require.Equal(t, "text", string(text))
}
