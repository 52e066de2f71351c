package provenance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/rundir"
)

// The records of a run are refused in one line that names the file, or give settings for every step; written as initial settings, these
// are read back unchanged.
func FuzzRead(f *testing.F) {
	cfg := configs.Defaults()
	first, err := json.Marshal(cfg)
	require.NoError(f, err)
	small := filepath.Join("..", "report", "testdata", "small")
	for _, dir := range []string{small} {
		config, err := os.ReadFile(filepath.Join(dir, ConfigFile))
		require.NoError(f, err)
		manifest, err := os.ReadFile(filepath.Join(dir, ManifestFile))
		require.NoError(f, err)
		f.Add(config, manifest)
		f.Add(first, manifest)
	}
	f.Add(first, []byte(`{"starts":[{"after":0,"parts":{"model":{"sha256":"aa"}}},{"after":3,"settings":{"learning_rate":0.5}}]}`))
	f.Add(first, []byte(`{"starts":[{"after":0,"settings":{"targets":null,"version":0}}]}`))
	f.Add([]byte(`{"version":3,"seed":-1}`), []byte(`{"starts":[{}]}`))
	f.Fuzz(func(t *testing.T, config, manifest []byte) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, ConfigFile), config, 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(dir, ManifestFile), manifest, 0o644))
		refused := func(err error) bool {
			if err == nil {
				return false
			}
			if !badinput.Is(err) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), dir) {
				t.Fatalf("not a line that names the file: %q", err)
			}
			return true
		}
		r, err := Read(dir)
		if refused(err) {
			return
		}
		for step := range 5 {
			at, _, err := r.At(step)
			if refused(err) {
				continue
			}
			text, err := json.Marshal(at)
			if err != nil {
				t.Fatalf("settings that cannot be written: %v", err)
			}
			other := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(other, ConfigFile), text, 0o644))
			again, err := SettingsOf(other)
			if at.Version == 0 { // a change has removed it
				continue
			}
			require.NoError(t, err)
			require.Equal(t, *at, *again)
		}
		_, err = SettingsOf(dir)
		refused(err)
		_, err = CheckRunDir(dir, []string{rundir.StateFile})
		refused(err)
	})
}
