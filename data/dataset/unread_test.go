package dataset

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A misspelt key of a test is reported like a misspelt column.
func TestUnknownKeysOfTestsAreNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(
		`{"id":"a","prompt":"p","tests":[{"stdin":"","stdout":"1","time_limit":5},{"stdin":"","stdout":"1","Time_Limit_MS":5}]}`+"\n"+
			`{"id":"b","prompt":"q","tests":"[{\"input\":\"\",\"output\":\"1\",\"time_limit\":5,\"weight\":null,\"note\":{\"x\":[1]}}]"}`+"\n"+
			`{"id":"c","prompt":"r","hint":"h","tests":[{"stdin":"","stdout":"1","args":null}]}`+"\n"), 0o644))
	set, err := Open(t.Context(), path, Options{CacheDir: t.TempDir(), Strict: true})
	require.NoError(t, err)
	defer set.Close()
	require.Len(t, set.Problems(), 3)
	require.Equal(t, map[string]int{"hint": 1, "tests[].time_limit": 2, "tests[].note": 1}, set.Manifest().Unread)
}
