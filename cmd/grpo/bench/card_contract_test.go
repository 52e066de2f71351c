package bench

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/internal/memory"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
)

// lockedCard is a card that is locked by a file while in use.
type lockedCard struct {
	kernels.Backend
	file string
}

func (lockedCard) Free() (memory.Room, bool) { return memory.Room{GPU: true}, true }
func (h lockedCard) Close() error            { return os.Remove(h.file) }

// A card may serve a single process: while another process tests it against the contract, it is free.
func TestTheContractHasTheCardForItself(t *testing.T) {
	folder := t.TempDir()
	taken, alone := filepath.Join(folder, "taken"), filepath.Join(folder, "alone")
	opened := 0
	c := Card{Size: "smoke", Device: "cuda:0",
		Open: func(string, int) (kernels.Backend, error) {
			opened++
			return lockedCard{backendtest.CPU(t, cpu.Options{}), taken}, os.WriteFile(taken, nil, 0o600)
		},
		Contract: []string{"sh", "-c", `test -e "$0" || touch "$1"`, taken, alone}}
	_, err := c.Run(t.Context())
	require.ErrorContains(t, err, "tells no peak", "the backend of the test is no card, so it has no peak")
	require.FileExists(t, alone)
	require.NoFileExists(t, taken)
	require.Equal(t, 2, opened)
}

// The output of the contract's process becomes one row: leaf cases are counted, and failures, or how the process ended, are reported.
func TestTheContractInARow(t *testing.T) {
	const passes = `=== RUN   Contract
=== RUN   Contract/memory
=== RUN   Contract/memory/buffers
--- PASS: Contract (0.10s)
    --- PASS: Contract/memory (0.02s)
        --- PASS: Contract/memory/buffers (0.01s)
        --- PASS: Contract/memory/releasing (0.01s)
    --- PASS: Contract/loss (0.01s)
    --- PASS: Contract/loss_of_all (0.01s)
PASS
`
	const fails = `=== RUN   Contract
    compare.go:90: alone: off by 3
--- FAIL: Contract (0.10s)
    --- FAIL: Contract/Linear (0.02s)
        --- FAIL: Contract/Linear/9x11 (0.01s)
        --- PASS: Contract/Linear/3x4 (0.01s)
    --- FAIL: Contract/loss (0.01s)
FAIL
`
	for _, c := range []struct {
		name, out, code string
		holds           bool
		saw             string
	}{
		{"passes", passes, "0", true, "4 cases against double precision, alone and in batches, twice"},
		{"fails", fails, "1", false, "2 of 3 cases fail, Contract/Linear/9x11 among them; --contract shows them all"},
		{"nothing", "", "0", false, "0 cases"},
		{"is cut off", "=== RUN   Contract\n\npanic: the card is lost\n", "2", false,
			"exit status 2 after 0 cases: panic: the card is lost; --contract shows all"},
		{"is silent", "", "3", false, "exit status 3 after 0 cases: it said nothing; --contract shows all"},
	} {
		t.Run(c.name, func(t *testing.T) {
			card := Card{Size: "full", Contract: []string{"sh", "-c", `printf '%s' "$0"; exit ` + c.code, c.out}}
			p, err := card.contract(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.holds, p.Holds)
			require.Contains(t, p.Saw, c.saw)
		})
	}
	_, err := (&Card{Contract: []string{"/there/is/no/such/program", "x"}}).contract(t.Context())
	require.ErrorContains(t, err, "/there/is/no/such/program x: ")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = (&Card{Contract: []string{"sh", "-c", "sleep 60"}}).contract(ended)
	require.ErrorIs(t, err, context.Canceled)
}
