package handover

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/provenance"
)

// Settings that changed during the run are listed with their earlier values. What came after the saved weights, or was repeated, is not
// listed.
func TestTheCardSaysWhichSettingsWereOthersBefore(t *testing.T) {
	dir := t.TempDir()
	cfg := configs.Defaults()
	cfg.LearningRate, cfg.Temperature = 0.01, 1
	write := func(name string, v any) {
		text, err := json.Marshal(v)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o644))
	}
	write(provenance.ConfigFile, cfg)
	with := func(after int, settings string) provenance.Start {
		s := provenance.Start{After: after}
		require.NoError(t, json.Unmarshal([]byte(settings), &s.Settings))
		return s
	}
	write(provenance.ManifestFile, provenance.Manifest{Created: "then", Starts: []provenance.Start{with(0, "{}"),
		with(3, `{"temperature":0.5}`), with(2, `{"learning_rate":0.002}`),
		with(4, `{"learning_rate":0.002}`), with(8, `{"learning_rate":0.003}`)}})
	past, err := provenance.Read(dir)
	require.NoError(t, err)
	for last, want := range map[int]string{2: "", 8: "| `learning_rate` | 2 | `0.01` |\n", 9: "| `learning_rate` | 2 | `0.01` |\n" +
		"| `learning_rate` | 8 | `0.002` |\n"} {
		var b strings.Builder
		require.NoError(t, writeChanges(func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }, past, last))
		_, rows, _ := strings.Cut(b.String(), "|---|---|---|\n")
		require.Equal(t, want, strings.TrimSuffix(rows, "\n"), last)
	}
}

// A fork has steps that were made elsewhere, with settings that its card does not know.
func TestTheCardOfAFork(t *testing.T) {
	for origin, want := range map[string]string{"": "", "step_000001": "1 step", "step_000014": "14 steps"} {
		if origin != "" {
			origin, want = "/runs/first/checkpoints/"+origin, "It is a fork: another run, first, made the first "+want+
				", with settings and problems of its own.\n\n"
		}
		var b strings.Builder
		writeFork(func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }, provenance.Manifest{Origin: origin})
		require.Equal(t, want, b.String())
	}
}
