package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// small is a run of a second that evaluates, saves and removes checkpoints. It has one thread, since more would mostly wait for each
// other, and slow down tests beside it, and a cache for as many sequences as it ever has.
var small = []string{"--preset", "tiny_smoke", "--quiet", "threads=1", "prompts_per_step=2", "completions_per_prompt=4", "max_tokens=32",
	"max_tests=2", "eval_problems=4", "eval_every=2", "max_steps=4", "save_every=1", "keep_last=2", "warmup_steps=0",
	"max_sequences=16"}

// runToEnd runs to the end.
func runToEnd(t *testing.T, folder string, words ...string) map[string]string {
	t.Helper()
	code, says := start(t, folder, words...).end(t)
	require.Zero(t, code, says)
	return runFiles(t, folder)
}

// withSettings returns arguments with other values for some keys.
func withSettings(words []string, others ...string) []string {
	key := func(word string) string { before, _, _ := strings.Cut(word, "="); return before }
	kept := slices.DeleteFunc(slices.Clone(words), func(w string) bool {
		return slices.ContainsFunc(others, func(o string) bool { return key(o) == key(w) })
	})
	return append(kept, others...)
}

// rolloutTimes matches the times in a line of rollouts.
var rolloutTimes = regexp.MustCompile(`,"(cpu_ms":[0-9.e+-]+|cached":true)`)

// runFiles are the files of a run, with the content of those that do not depend on the clock.
func runFiles(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	dir := filepath.Join(folder, "run")
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		require.NoError(t, err)
		files[name] = ""
		whole := strings.HasPrefix(name, "checkpoints/step_") ||
			slices.Contains([]string{"checkpoints.jsonl", "metrics.jsonl", "rollouts.jsonl"}, name)
		if d.IsDir() || !whole {
			return nil
		}
		text, err := os.ReadFile(path)
		if filepath.Base(name) == "state.json" {
			text = stateWithoutClock(t, text)
		}
		files[name] = string(rolloutTimes.ReplaceAll(text, nil))
		return err
	}))
	return files
}

// stateWithoutClock is the state of a checkpoint without values that depend on the clock.
func stateWithoutClock(t *testing.T, text []byte) []byte {
	t.Helper()
	var s map[string]any
	require.NoError(t, json.Unmarshal(text, &s))
	require.Contains(t, s, "logs")
	require.Contains(t, s, "seal")
	delete(s, "logs")
	delete(s, "seal")
	sums, ok := s["sha256"].(map[string]any)
	require.True(t, ok)
	delete(sums, "ahead.json") // conversations in it have their judging time; without that the file is compared itself
	text, err := json.Marshal(s)
	require.NoError(t, err)
	return text
}

// requireSameRun shows where two runs differ.
func requireSameRun(t *testing.T, want, got map[string]string) {
	t.Helper()
	names := func(files map[string]string) (all []string) {
		for name := range files {
			all = append(all, name)
		}
		slices.Sort(all)
		return all
	}
	require.Equal(t, names(want), names(got))
	for name, text := range want {
		other, at := got[name], 0
		for at < min(len(text), len(other)) && text[at] == other[at] {
			at++
		}
		show := func(s string) string { return s[max(0, min(at-80, len(s))):min(at+80, len(s))] }
		require.True(t, text == other, "%s differs at byte %d:\n  %q\n  %q", name, at, show(text), show(other))
	}
}
