//go:build gpu

package driver

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/kernels/cuda/internal/subprocess"
)

func init() {
	tasks["transfers"] = func() error { return roundTrips(func(*Transfers) {}) }
	tasks["too early"] = func() error {
		// A deliberate mistake: slots are overwritten before the card has read them.
		return roundTrips(func(t *Transfers) {
			for i := range t.ring {
				t.ring[i].queued = false
			}
		})
	}
}

// roundTrips uploads pieces of random sizes through a small ring, and downloads them through a small buffer.
func roundTrips(afterUpload func(*Transfers)) error {
	d, err := Open(0, Options{})
	if err != nil {
		return err
	}
	s, err := d.NewStream()
	if err != nil {
		return lostOr(err, d.Close())
	}
	t, err := s.newTransfers(3, 256, 320)
	if err != nil {
		return lostOr(err, d.Close())
	}
	const n = 4000
	m, err := d.Alloc(n)
	if err != nil {
		return lostOr(err, d.Close())
	}
	rng := rand.New(rand.NewPCG(2, 3))
	want, got := make([]byte, n), make([]byte, n)
	for round := 0; round < 20 && err == nil; round++ {
		for at := 0; at < n && err == nil; {
			size := min(1+rng.IntN(700), n-at)
			for i := range size {
				want[at+i] = byte(rng.Uint32())
			}
			piece := bytes.Clone(want[at : at+size])
			err = t.Upload(m.At+Ptr(at), piece)
			clear(piece) // Upload has copied it, so it may be overwritten
			afterUpload(t)
			at += size
		}
		for at := 0; at < n && err == nil; {
			size := min(1+rng.IntN(400), n-at)
			err = t.Fetch(got[at:at+size], m.At+Ptr(at))
			at += size
		}
		if err == nil {
			err = t.Sync()
		}
		if err == nil && !bytes.Equal(want, got) {
			return fmt.Errorf("round %d: other bytes came back", round)
		}
	}
	if errors.Is(err, ErrLost) {
		return lostOr(err, d.Close())
	}
	return errors.Join(err, t.Close(), m.Free(), s.Close(), d.Close())
}

// Transfers through pinned memory do not change the data, and do not overwrite a slot before the card has read it. The emulated device
// would report that, as it does for the deliberate mistake.
func TestTransfers(t *testing.T) {
	out, ok := subprocess.Emulated(t, "transfers")
	require.True(t, ok, out)
	require.Empty(t, out, "the device found something")
	out, ok = subprocess.Emulated(t, "too early")
	require.False(t, ok)
	require.Contains(t, out, "host memory in use: pinned memory of ")
	require.Contains(t, out, "changed before its copy to the device was waited for; wait, then write")
	out, ok = subprocess.Emulated(t, "transfers", "GRPO_EMU_LOST_AT=100")
	require.False(t, ok)
	require.Contains(t, out, "nothing more runs on it in this process")
	require.NotContains(t, out, "closing")
}
