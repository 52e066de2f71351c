//go:build gpu

package device

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
)

// A process that waits for a card is told why, once; one that does not wait is told nothing.
func TestALongWaitForACardIsTold(t *testing.T) {
	const apart = "GRPO_TEST_APART" // in a process of its own, as a driver that was found once stays for all tests
	if os.Getenv(apart) == "" {
		again := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		again.Env = append(os.Environ(), apart+"=1")
		out, err := again.CombinedOutput()
		require.NoError(t, err, string(out))
		return
	}
	backendtest.Emulate(t)
	lines := make(chan string, 2)
	Tell = func(line string) { lines <- line }
	defer func(usual time.Duration) { Tell, unusuallyLong = nil, usual }(unusuallyLong)
	open := func(long time.Duration) {
		unusuallyLong = long
		b, err := Open("cuda:0", 0)
		require.NoError(t, err)
		require.NoError(t, b.Close())
	}
	open(time.Hour)
	open(0)
	require.Equal(t, "cuda:0: its driver compiles the kernels, and keeps what it made", <-lines)
	require.Empty(t, lines)
}
