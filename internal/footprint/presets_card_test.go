//go:build gpu

package footprint

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/internal/memory"
)

// The same for a card of 24 GiB in a machine of 32 GiB, with the chosen settings.
func TestPresetsTakeWhatTheTableSaysOnACard(t *testing.T) {
	b := backendtest.Card(t)
	defer func() { require.NoError(t, b.Close()) }()
	var on rooms
	on[device].Room, on[device].known = memory.Room{Bytes: roomOfGiB(24), Limit: "the memory of card 0", GPU: true}, true
	on[host].Room, on[host].known = memory.Room{Bytes: roomOfGiB(32), Limit: "the machine's memory"}, true
	var names []string
	for _, name := range configs.Presets() {
		if p := presets[name]; p.gib > 0 && p.gib <= 24 {
			names = append(names, name)
		}
	}
	checkTable(t, "On a card:\n\n"+columns, names, func(name, _ string) string {
		return presetLine(t, b, name, presets[name].shape, on, "")
	})
}
