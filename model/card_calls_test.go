//go:build gpu

package model

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/kernels/cuda/emu"
)

// countsVariable names the file to which the device writes the counts of calls of a process.
const countsVariable = "GRPO_EMU_COUNTS"

// The host waits for a card once per decoding step, for the tokens, and once per training batch, for the statistics; no other call makes
// it wait, and each thread sets its context once.
func TestCallsOfAStepOnACard(t *testing.T) {
	path := os.Getenv(countsVariable)
	if path == "" { // this process may have loaded the library already, so the test runs in another one
		again := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestCallsOfAStepOnACard$")
		again.Env = append(os.Environ(), countsVariable+"="+filepath.Join(t.TempDir(), "counts"))
		out, err := again.CombinedOutput()
		require.NoError(t, err, string(out))
		return
	}
	b := backendtest.Card(t)
	defer func() { require.NoError(t, b.Close()) }()
	p := openGolden(t, b, "qwen3-tied", "train_init", Options{Precision: BF16, Cache: BF16})
	calls := func(of func()) emu.Counts {
		t.Helper()
		before, err := emu.ReadCounts(path)
		require.NoError(t, err)
		of()
		after, err := emu.ReadCounts(path)
		require.NoError(t, err)
		return after.Since(before)
	}

	d, err := p.NewDecoder(DecoderSize{Blocks: 4, Rows: 8, Sequences: 2, TableStride: 2})
	require.NoError(t, err)
	step := func() {
		t.Helper()
		_, err := d.Run(&Rows{Tokens: []int32{1, 2, 3}, Positions: []int32{0, 1, 2}, Starts: []int32{0, 3}, Tables: []int32{0, 1},
			Draws: []Draw{{Row: 2, Uniform: 0.5, InvTemp: 1, TopP: 1}}})
		require.NoError(t, err)
	}
	step() // the first step allocates scratch memory
	decoding := calls(step)
	require.EqualValues(t, 1, decoding.Waits, "a decoding step waits once, for the tokens")
	require.EqualValues(t, 10, decoding.Uploads, "uploads: the rows and the draws")
	require.EqualValues(t, 2, decoding.Downloads, "downloads: tokens and their log-probabilities")
	require.Zero(t, decoding.Copies+decoding.Fills)
	require.LessOrEqual(t, decoding.Launches, uint64(25*p.Layers+12))
	require.LessOrEqual(t, decoding.Contexts, uint64(1), "the goroutine may have moved")
	require.Equal(t, decoding.Calls, decoding.Launches+decoding.Uploads+decoding.Downloads+decoding.Waits+decoding.Contexts)
	require.Zero(t, testing.AllocsPerRun(10, step), "allocations on the Go heap in a decoding step")
	t.Logf("a step of decoding: %+v", decoding)

	datums := []Datum{NewDatum([]int32{1, 2, 3, 4}, 2, []float32{0, -1, -1}, 1)}
	train := func() {
		t.Helper()
		_, err := p.Accumulate(t.Context(), datums, importanceSampling)
		require.NoError(t, err)
	}
	train()
	training := calls(train)
	require.EqualValues(t, 1, training.Waits, "a training step waits once, for the statistics")
	require.EqualValues(t, 1, training.Downloads)
	t.Logf("a batch of training: %+v", training)
}
