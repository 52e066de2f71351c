//go:build gpu

package emu_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// bugs are the mistakes planted in kernels and in host calls, with the kind of finding that each must be reported as.
var bugs = []struct{ name, mistake, kind string }{
	{"missing_barrier", "a missing barrier", "race in shared memory"},
	{"missing_warp_barrier", "the same within a warp", "race in shared memory"},
	{"missing_handover", "the same between warps that write and warps that read", "race in shared memory"},
	{"missing_bound", "a missing bound", "out of bounds"},
	{"missing_wait", "a missing wait for `cp.async`", "missing wait"},
	{"wrong_stride", "a wrong stride", "out of bounds"},
	{"block_race", "a race between blocks", "race between blocks"},
	{"misaligned", "a misaligned load of a vector", "misaligned access"},
	{"uninitialised", "a read of what nobody wrote", "uninitialised read"},
	{"lane_mask", "a wrong lane mask", "wrong lane mask"},
	{"divergent_barrier", "a barrier that half of the block skips", "divergent barrier"},
	{"named_barrier", "a named barrier for the wrong number of threads", "uninitialised read"},
	{"large_shared", "a launch with too much shared memory", "impossible launch"},
	{"use_after_release", "a use after release", "use after free"},
	{"stream_without_event", "a second stream without an event", "race between streams"},
	{"early_write", "pinned memory that changes under a copy", "host memory in use"},
	{"leak", "a leak", "leak"},
}

const (
	tableStart = "<!-- what the planted bugs give; go test -tags gpu ./kernels/cuda/emu -update writes it -->\n"
	tableEnd   = "<!-- end -->"
)

// Each mistake is found, and the same code without it is silent. docs/emulator.md shows the messages.
func TestPlantedBugsAreFound(t *testing.T) {
	var table strings.Builder
	table.WriteString("| mistake | report |\n|---|---|\n")
	for _, bug := range bugs {
		right := probe(t, probes+"/bugs.ptx", []string{"right", bug.name})
		require.Empty(t, right.stderr, bug.name)
		require.Empty(t, right.reports, bug.name)
		require.Equal(t, "done\n", right.out, bug.name)

		wrong := probe(t, probes+"/bugs.ptx", []string{"wrong", bug.name}, "GRPO_EMU_THREADS=1")
		require.Len(t, wrong.reports, 1, bug.name)
		found := wrong.reports[0]
		require.Equal(t, bug.kind, found.Kind, "%s: %s", bug.name, found.Message)
		require.Equal(t, fmt.Sprintf("emulated device: %s: %s\n", found.Kind, found.Message), wrong.stderr)
		fmt.Fprintf(&table, "| %s | %s: %s |\n", bug.mistake, found.Kind, strings.ReplaceAll(found.Message, "|", `\|`))
	}
	text := read(t, page)
	before, rest, ok := strings.Cut(text, tableStart)
	require.True(t, ok, "%s has no place for the table", page)
	old, after, ok := strings.Cut(rest, tableEnd)
	require.True(t, ok, "%s has no end of the table", page)
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(before+tableStart+table.String()+tableEnd+after), 0o644))
		return
	}
	require.Equal(t, table.String(), old, "docs/emulator.md: go test -tags gpu ./kernels/cuda/emu -update writes the table anew")
}

// A mistake of a kernel makes later calls fail, as on a card.
func TestFindingsFailTheNextCall(t *testing.T) {
	for name, want := range map[string]string{
		"missing_bound":     "launch: CUDA_ERROR_ILLEGAL_ADDRESS\n",
		"misaligned":        "launch: CUDA_ERROR_MISALIGNED_ADDRESS\n",
		"lane_mask":         "launch: CUDA_ERROR_LAUNCH_FAILED\n",
		"large_shared":      "cuLaunchKernel: CUDA_ERROR_INVALID_VALUE\n",
		"use_after_release": "launch: CUDA_ERROR_ILLEGAL_ADDRESS\n",
	} {
		a := probe(t, probes+"/bugs.ptx", []string{"wrong", name})
		require.Equal(t, want, a.out, name)
		require.Equal(t, 3, a.code, name)
	}
}

// The report of a mistake within a block does not depend on the number of host threads. For a race between blocks only its kind does not:
// which access is reported is up to the schedule.
func TestFindingsDoNotDependOnThreads(t *testing.T) {
	for _, name := range []string{"missing_barrier", "missing_bound", "missing_wait", "wrong_stride", "lane_mask", "uninitialised"} {
		one := probe(t, probes+"/bugs.ptx", []string{"wrong", name}, "GRPO_EMU_THREADS=1")
		four := probe(t, probes+"/bugs.ptx", []string{"wrong", name}, "GRPO_EMU_THREADS=4")
		require.Equal(t, one, four, name)
	}
	for range 5 {
		race := probe(t, probes+"/bugs.ptx", []string{"wrong", "block_race"}, "GRPO_EMU_THREADS=4")
		require.Len(t, race.reports, 1)
		require.Equal(t, "race between blocks", race.reports[0].Kind)
	}
}

// The data of an asynchronous copy is not there before the wait.
func TestCopiesArriveAtTheWait(t *testing.T) {
	require.Equal(t, "the host reads 7\ndone\n", probe(t, probes+"/bugs.ptx", []string{"right", "early_read"}).out)
	require.Equal(t, "the host reads ffffffff\ndone\n", probe(t, probes+"/bugs.ptx", []string{"wrong", "early_read"}).out)
}
