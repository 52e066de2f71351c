//go:build gpu

package cuda

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cuda/driver"
	"github.com/seed-7879b91d/grpo/kernels/cuda/internal/subprocess"
)

func init() {
	tasks["sums"] = func() error {
		d, err := driver.Open(0, driver.Options{})
		if err != nil {
			return err
		}
		b, err := NewBackend(d)
		if held := d.Held().Pinned; err == nil && held != driver.PinnedBytes {
			err = fmt.Errorf("plans of memory have %d pinned bytes, and %d are pinned", driver.PinnedBytes, held)
		}
		if err == nil {
			err = sums(b)
			if closing := b.Close(); err == nil {
				err = closing
			}
		}
		if closing := d.Close(); closing != nil {
			return fmt.Errorf("closing: %w", errors.Join(err, closing))
		}
		return err
	}
}

// sums queues two additions: one in place, and one that needs scratch memory between its two launches.
func sums(b *Backend) error {
	x, err := b.Alloc(kernels.F32, 600)
	if err != nil {
		return err
	}
	db, err := b.Alloc(kernels.F32, 3)
	if err != nil {
		return err
	}
	b.Upload(x, slices.Repeat([]float32{0.5}, 600))
	b.Add(x, x, x, 600)
	b.BiasGrad(db, kernels.Whole(x, 3), 200)
	got := make([]float32, 3)
	if err := b.Download(got, db); err != nil {
		return err
	}
	if want := []float32{200, 200, 200}; !slices.Equal(got, want) {
		return fmt.Errorf("the sums are %v, expected %v", got, want)
	}
	return nil
}

// A failure on the card while operations are queued is reported by the next Sync, and everything is freed.
func TestBackendTellsWhatFailed(t *testing.T) {
	out, ok := subprocess.Emulated(t, "sums")
	require.True(t, ok, out)
	require.Empty(t, out)
	for env, want := range map[string]string{
		"GRPO_EMU_FAIL_LAUNCH=1":  "the last kernel launched was add; nothing more runs on it in this process",
		"GRPO_EMU_FAIL_LAUNCH=2":  "the last kernel launched was sum_rows; nothing more runs on it in this process",
		"GRPO_EMU_OOM_AFTER=1K":   "allocating 2400 bytes where ",
		"GRPO_EMU_OOM_AFTER=3100": "allocating 48 bytes where ",
	} {
		out, ok := subprocess.Emulated(t, "sums", env)
		require.False(t, ok, env)
		require.Contains(t, out, want, env)
		require.NotContains(t, out, "closing", env)
	}
}

// If the card is lost, at any call, including those that load kernels, all later calls return the same error. Close returns it only if no
// call before has.
func TestBackendOnALostCard(t *testing.T) {
	for at := 1; ; at += 23 {
		out, ok := subprocess.Emulated(t, "sums", "GRPO_EMU_LOST_AT="+strconv.Itoa(at))
		if ok {
			require.Greater(t, at, 100)
			return
		}
		require.NotContains(t, strings.TrimPrefix(out, "error: closing"), "closing", at)
		require.Contains(t, out, "CUDA_ERROR_UNKNOWN", at)
	}
}
