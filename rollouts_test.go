package grpo

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/rollouts"
	"github.com/seed-7879b91d/grpo/internal/rundir"
)

// recordedCompletions is the completions recorded by a run, decompressed.
func recordedCompletions(t *testing.T, dir string) (text string, steps []int) {
	t.Helper()
	for _, name := range []string{rollouts.PlainFile, rollouts.CompressedFile} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			continue
		}
		require.NoError(t, jsonl.EachComplete(filepath.Join(dir, name), func(line []byte) error {
			var at struct{ Step int }
			if text += string(line) + "\n"; len(steps) == 0 || steps[len(steps)-1] != at.Step {
				require.NoError(t, json.Unmarshal(line, &at))
				if len(steps) == 0 || steps[len(steps)-1] != at.Step {
					steps = append(steps, at.Step)
				}
			}
			return nil
		}))
	}
	return text, steps
}

// The format of the record does not change the run; a compressed record has the same lines in fewer bytes.
func TestRecordsOfEachForm(t *testing.T) {
	race.SkipCovered(t)
	at := func(words ...string) (dir string, left map[string]string) {
		s := setup{dir: filepath.Join(t.TempDir(), "run"), words: append(words, "max_steps=6", "eval_every=-1", "keep_best=0", "keep_last=0")}
		tr, _ := s.open(t)
		run(t, tr)
		return s.dir, files(t, s.dir)
	}
	plain, want := at()
	lines, steps := recordedCompletions(t, plain)
	require.Equal(t, []int{1, 2, 3, 4, 5, 6}, steps)
	require.Equal(t, want[rollouts.PlainFile], lines)

	packed, got := at("compress_rollouts=true")
	same, _ := recordedCompletions(t, packed)
	require.Equal(t, lines, same)
	require.Less(t, 2*len(got[rollouts.CompressedFile]), len(lines))
	require.NoFileExists(t, filepath.Join(packed, rollouts.PlainFile))

	thin, thinned := at("record_rollouts=3", "compress_rollouts=true")
	_, steps = recordedCompletions(t, thin)
	require.Equal(t, []int{3, 6}, steps)
	none, nothing := at("record_rollouts=none")
	_, steps = recordedCompletions(t, none)
	require.Empty(t, steps)
	require.NoFileExists(t, filepath.Join(none, rollouts.PlainFile))
	for _, other := range []map[string]string{got, thinned, nothing} {
		for _, name := range []string{metricsFile, momentsFile, provenance.AdapterDir + "/adapter_model.safetensors"} {
			require.True(t, want[name] == other[name], name)
		}
	}

	for step, dir := range map[int]string{4: packed, 3: thin} {
		took, _, err := replayed(t, dir, step)
		require.NoError(t, err)
		require.Equal(t, step, took[len(took)-1])
	}
	for dir, says := range map[string]string{
		thin: "step 5 has no recorded rollouts (record_rollouts=3); recorded: 3, 6; ",
		none: "step 5 has no recorded rollouts (record_rollouts=none); recorded: none; ",
	} {
		_, _, err := replayed(t, dir, 5)
		require.ErrorContains(t, err, says)
		require.True(t, badinput.Is(err))
	}
}

// A run may change the format of its record. If it goes back, later lines are cut from every file, and set aside.
func TestRecordsChangeTheirFormOnTheWay(t *testing.T) {
	race.SkipCovered(t)
	dir := filepath.Join(t.TempDir(), "run")
	goOn := func(words ...string) {
		tr, _ := setup{dir: dir, words: append(words, "eval_every=-1", "keep_best=0", "keep_last=0")}.open(t)
		run(t, tr)
	}
	goOn("max_steps=6")
	want := files(t, dir)
	plain, _ := recordedCompletions(t, dir)

	goOn("max_steps=4", "compress_rollouts=true", "resume="+checkpoint(dir, 2))
	_, steps := recordedCompletions(t, dir)
	require.Equal(t, []int{1, 2, 3, 4}, steps, "those after step 2 are gone from the first file")
	goOn("max_steps=6", "compress_rollouts=true")
	text, _ := recordedCompletions(t, dir)
	require.Equal(t, plain, text)
	first, err := os.ReadFile(filepath.Join(dir, rollouts.PlainFile))
	require.NoError(t, err)
	require.True(t, 0 < len(first) && len(first) < len(text), "each file must have a part of the completions")
	_, _, err = replayed(t, dir, 6)
	require.NoError(t, err)

	goOn("max_steps=6", "compress_rollouts=false", "resume="+checkpoint(dir, 2))
	text, _ = recordedCompletions(t, dir)
	require.Equal(t, plain, text)
	requireSame(t, want, files(t, dir))
	aside, err := filepath.Glob(filepath.Join(dir, rundir.Checkpoints, rundir.RolledBackDir, "*", rollouts.CompressedFile))
	require.NoError(t, err)
	require.NotEmpty(t, aside)
}
