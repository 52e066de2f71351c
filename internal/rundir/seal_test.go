package rundir

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A state is read if its version is supported and its seal is right.
func TestStatesOfOtherReleasesAreRefused(t *testing.T) {
	type state struct {
		Version int    `json:"version"`
		Step    int    `json:"step"`
		Seal    string `json:"seal"`
	}
	dir := t.TempDir()
	read := func(text []byte) (s state, err error) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, StateFile), text, 0o644))
		return s, ReadState(dir, &s, 2, 3)
	}
	require.ErrorIs(t, ReadState(dir, new(state), 2, 3), fs.ErrNotExist)
	for version := 1; version <= 4; version++ {
		text, err := Seal(state{Version: version, Step: 12})
		require.NoError(t, err)
		s, err := read(text)
		if version == 2 || version == 3 {
			require.NoError(t, err)
			require.Equal(t, 12, s.Step)
			_, err = read(bytes.Replace(text, []byte("12"), []byte("13"), 1))
			require.ErrorContains(t, err, StateFile+" is damaged")
			_, err = read(text[:len(text)/2])
			require.ErrorContains(t, err, StateFile+": unexpected end of JSON input")
			continue
		}
		require.ErrorContains(t, err, "expected 3: another release of grpo wrote it")
	}
}
