package grpo

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/rundir"
	"github.com/seed-7879b91d/grpo/internal/snapshot"
)

// resealed is a text with a member "seal" that fits it, where it has one.
func resealed(text []byte) []byte {
	var s struct{ Seal string }
	if json.Unmarshal(text, &s) != nil || s.Seal == "" || bytes.Count(text, []byte(s.Seal)) != 1 {
		return text
	}
	empty := strings.Replace(string(text), s.Seal, "", 1)
	return []byte(strings.Replace(string(text), s.Seal, fmt.Sprintf("%x", sha256.Sum256([]byte(empty))), 1))
}

// The state of a checkpoint is refused in one line that names the checkpoint, or it is written as it was read; a byte
// that is damaged is noticed, and none of its checksums is taken of a file outside of the checkpoint.
func FuzzState(f *testing.F) {
	run := filepath.Join(f.TempDir(), "run")
	tr, _ := setup{dir: run, words: []string{"max_steps=2", "pipeline=full"}}.open(f)
	require.NoError(f, tr.Run(f.Context()))
	saved, err := filepath.Glob(filepath.Join(run, rundir.Checkpoints, "step_??????", rundir.StateFile))
	require.NoError(f, err)
	require.NotEmpty(f, saved)
	for _, path := range saved {
		text, err := os.ReadFile(path)
		require.NoError(f, err)
		f.Add(text, 100)
		f.Add(bytes.Replace(text, []byte(`"sha256": {`), []byte(`"sha256": {"../../../outside": "00",`), 1), 7)
		f.Add(bytes.Replace(text, []byte(`"step": 2`), []byte(`"step": -2`), 1), 300)
	}
	f.Fuzz(func(t *testing.T, text []byte, at int) {
		dir := filepath.Join(t.TempDir(), "step_000002")
		require.NoError(t, os.Mkdir(dir, 0o755))
		path := filepath.Join(dir, rundir.StateFile)
		read := func(text []byte) (snapshot.State, error) {
			require.NoError(t, os.WriteFile(path, text, 0o644))
			s, err := snapshot.Parse(dir)
			if err != nil && (!badinput.Is(err) || !strings.Contains(err.Error(), dir)) {
				t.Fatalf("not an input error that names the checkpoint: %v", err)
			}
			return s, err
		}
		text = resealed(text)
		s, err := read(text)
		if err != nil {
			return
		}
		_, err = snapshot.Read(dir)
		for name := range s.Checksum {
			if !filepath.IsLocal(name) {
				require.ErrorContains(t, err, "outside")
			}
		}
		sealed, err := rundir.Seal(s)
		require.NoError(t, err)
		again, err := read(sealed)
		require.NoError(t, err)
		require.Equal(t, asJSON(t, s), asJSON(t, again))

		damaged := bytes.Clone(text)
		damaged[uint(at)%uint(len(text))] ^= 1
		_, err = read(damaged)
		require.Error(t, err, "damage at %d", uint(at)%uint(len(text)))
	})
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}
