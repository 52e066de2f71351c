//go:build gpu

package driver

import (
	"bytes"
	"encoding/binary"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorgonia.org/cu"
)

// Every kind of transfer leaves the data unchanged.
func TestMemory(t *testing.T) {
	d := openDevice(t)
	s := stream(t, d)
	text := bytes.Repeat([]byte("0123456789"), 100)
	m, err := d.Alloc(int64(2 * len(text)))
	require.NoError(t, err)
	require.Zero(t, m.At%256)
	moves, err := s.NewTransfers()
	require.NoError(t, err)
	require.NoError(t, moves.Upload(m.At, text))
	require.NoError(t, s.Copy(m.At+Ptr(len(text)), m.At, int64(len(text))))
	require.NoError(t, s.Fill(m.At+2, '-', 3))
	back := make([]byte, 2*len(text))
	require.NoError(t, s.Read(back, m.At))
	require.Equal(t, "01---56789"+string(text[10:])+string(text), string(back))
	require.NoError(t, moves.Close())

	pinned, err := d.Pin(16)
	require.NoError(t, err)
	require.Equal(t, make([]byte, 16), pinned.Bytes())
	require.NoError(t, s.Download(pinned, 4, m.At+1, 8))
	require.NoError(t, s.Sync())
	require.Equal(t, "\x00\x00\x00\x001---5678\x00\x00\x00\x00", string(pinned.Bytes()))
	require.NoError(t, s.Upload(m.At, pinned, 8, 4))
	require.NoError(t, s.Read(back[:6], m.At))
	require.Equal(t, "5678-5", string(back[:6]))
	require.ErrorContains(t, s.Upload(m.At, pinned, 8, 9), "bytes 8 to 17 of pinned memory of 16")
	require.ErrorContains(t, s.Download(pinned, -1, m.At, 1), "bytes -1 to 0 of pinned memory of 16")
	for i, err := range []error{s.Read(nil, m.At), s.Copy(m.At, m.At, 0), s.Fill(m.At, 0, 0),
		s.Upload(m.At, pinned, 16, 0), s.Download(pinned, 16, m.At, 0)} {
		require.NoError(t, err, "nothing is nothing: %d", i)
	}

	require.Equal(t, Held{Allocations: 1, Bytes: 2000, Pins: 1, Pinned: 16, Streams: 1}, d.Held())
	require.NoError(t, m.Free())
	require.NoError(t, pinned.Free())
	require.ErrorContains(t, m.Free(), "memory is given back twice")
	for _, n := range []int64{0, -1} {
		_, err = d.Alloc(n)
		require.ErrorContains(t, err, "expected more than 0")
		_, err = d.Pin(int(n))
		require.ErrorContains(t, err, "expected more than 0")
	}
}

// The error of an allocation that is too large says how much memory is free, and the card remains usable.
func TestNoMemory(t *testing.T) {
	d := openDevice(t)
	_, err := d.Alloc(3 << 30)
	require.ErrorIs(t, err, ErrMemory)
	require.NotErrorIs(t, err, ErrLost)
	require.EqualError(t, err, "card 0 (Test Card): allocating 3.0 GiB where 512.0 MiB of 512.0 MiB are free: "+
		"CUDA_ERROR_OUT_OF_MEMORY (2): out of memory; end what else runs on it (see nvidia-smi), take less "+
		"(of a run, max_rows and cache_memory; --dry-run says what takes how much), or device=cpu")
	m, err := d.Alloc(1 << 20)
	require.NoError(t, err)
	free, total, err := d.Memory()
	require.NoError(t, err)
	require.Equal(t, int64(1<<29-1<<20), free)
	require.Equal(t, int64(1<<29), total)
	require.NoError(t, m.Free())
}

func TestEvents(t *testing.T) {
	d := openDevice(t)
	one, two := stream(t, d), stream(t, d)
	before, err := d.NewEvent(true)
	require.NoError(t, err)
	after, err := d.NewEvent(true)
	require.NoError(t, err)
	require.NoError(t, one.Record(before))
	require.NoError(t, two.Wait(before))
	require.NoError(t, two.Record(after))
	require.NoError(t, after.Sync())
	done, err := after.Done()
	require.NoError(t, err)
	require.True(t, done)
	took, err := after.Since(before)
	require.NoError(t, err)
	require.Less(t, took.Abs(), time.Second)

	plain, err := d.NewEvent(false)
	require.NoError(t, err)
	_, err = plain.Since(before)
	require.Error(t, err, "the event was not timed")
	for _, e := range []*Event{before, after, plain} {
		require.NoError(t, e.Close())
	}
	require.ErrorContains(t, plain.Close(), "an event is given back twice")
}

// An event that the card has not reached is reported as pending.
func TestAnEventToCome(t *testing.T) {
	t.Setenv("GRPO_EMU_ANSWER", "cuEventQuery:600")
	d := openDevice(t)
	s := stream(t, d)
	e, err := d.NewEvent(false)
	require.NoError(t, err)
	require.NoError(t, s.Record(e))
	done, err := e.Done()
	require.NoError(t, err)
	require.False(t, done)
	require.NoError(t, e.Close())
}

// Close counts the resources that were not released, and releases them.
func TestLeaks(t *testing.T) {
	d, err := Open(0, Options{Spin: true})
	require.NoError(t, err)
	flags, active, err := d.device.PrimaryCtxState()
	require.NoError(t, err)
	require.Equal(t, cu.SchedSpin, flags)
	require.NotZero(t, active)
	for range 3 {
		_, err = d.Alloc(1 << 20)
		require.NoError(t, err)
	}
	_, err = d.Pin(100)
	require.NoError(t, err)
	_, err = d.NewStream()
	require.NoError(t, err)
	_, err = d.NewEvent(true)
	require.NoError(t, err)
	text, err := probeKernels("kernels")
	require.NoError(t, err)
	_, err = d.Load(text)
	require.NoError(t, err)
	err = d.Close()
	var leak *Leak
	require.ErrorAs(t, err, &leak)
	require.EqualError(t, err, "card 0 (Test Card): closed with 3 allocations (3.0 MiB), 1 pinned allocations (100 bytes), 1 streams, "+
		"1 events, 1 modules still held")
	require.NoError(t, d.Close(), "once is enough")
	_, err = d.Alloc(1)
	require.EqualError(t, err, "card 0 (Test Card): used after it was closed")
	_, active, err = d.device.PrimaryCtxState()
	require.NoError(t, err)
	require.Zero(t, active)

	again := openDevice(t)
	free, _, err := again.Memory()
	require.NoError(t, err)
	require.Equal(t, int64(1<<29), free, "not all memory was freed")
	flags, _, err = again.device.PrimaryCtxState()
	require.NoError(t, err)
	require.Equal(t, cu.SchedBlockingSync, flags)
	require.Equal(t, "nothing", again.Held().String())
}

// Goroutines move between threads; the context is current in all of them.
func TestManyGoroutines(t *testing.T) {
	d := openDevice(t)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			s, err := d.NewStream()
			if err != nil {
				t.Error(err)
				return
			}
			for range 50 {
				m, err := d.Alloc(64)
				if err != nil {
					t.Error(err)
					return
				}
				var back [64]byte
				if err := s.Fill(m.At, byte(g), 64); err != nil {
					t.Error(err)
				}
				if err := s.Read(back[:], m.At); err != nil || back[63] != byte(g) {
					t.Error(back, err)
				}
				if err := m.Free(); err != nil {
					t.Error(err)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// floats encodes numbers as the card stores them.
func floats(x ...float32) (raw []byte) {
	for _, v := range x {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return raw
}
