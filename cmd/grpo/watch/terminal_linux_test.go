package watch

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A terminal that cannot redraw gets one picture, without escape sequences.
func TestADumbTerminalGetsOnePicture(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"config.json", "manifest.json"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("{}"), 0o644))
	}
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("there are no terminals here: ", err)
	}
	defer master.Close()
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	end, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("there are no terminals here: ", err)
	}
	defer end.Close()
	t.Setenv("TERM", "dumb")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, watchInTerminal(ctx, end, []string{dir}, false))
	drawn := make([]byte, 4096)
	k, err := master.Read(drawn)
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(drawn[:k], []byte(filepath.Base(dir)+" · not running")), "%q", drawn[:k])
}
