package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// golden is a small model with float64 references; see the README beside it.
func golden(name ...string) string {
	return filepath.Join(append([]string{"..", "..", "model", "testdata", "golden"}, name...)...)
}

// shell runs a command line, and returns its output and exit code.
func shell(t *testing.T, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(stdin), &out, &errs)
	return out.String(), errs.String(), code
}

func readJSONFile(t *testing.T, v any, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, v))
}

// sandboxError says why no sandbox can be used here, or nil.
var sandboxError = sync.OnceValue(func() error {
	if _, err := exec.LookPath("python3"); err != nil {
		return badinput.Errorf("there is no python3 to run programs with")
	}
	pool, err := sandbox.Open(context.Background(), sandbox.Options{Slots: 1})
	if err == nil {
		pool.Close()
	}
	return err
})

// needsSandbox skips a test if no sandbox can be used.
func needsSandbox(t *testing.T) {
	t.Helper()
	if err := sandboxError(); badinput.Is(err) {
		t.Skip(err)
	} else {
		require.NoError(t, err)
	}
}

// damagedModel is a copy of a golden model, damaged by edit.
func damagedModel(t *testing.T, name string, edit func(dir string)) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(golden(name))))
	edit(dir)
	return dir
}

// rewrite replaces the content of a file by the result of fn.
func rewrite(t *testing.T, path string, fn func([]byte) []byte) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, fn(text), 0o644))
}

// requireBadInput requires a single line with the given texts, exit code 2, and no output.
func requireBadInput(t *testing.T, out, errs string, code int, says ...string) {
	t.Helper()
	require.Equal(t, 2, code, errs)
	require.Empty(t, out)
	require.Equal(t, 1, strings.Count(errs, "\n"), errs)
	require.True(t, strings.HasPrefix(errs, "grpo: "), errs)
	for _, s := range says {
		require.Contains(t, errs, s)
	}
}

// write writes a file and returns its path.
func write(t *testing.T, path, text string) string {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}
