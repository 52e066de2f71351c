package grpo

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/autopilot"
	"github.com/seed-7879b91d/grpo/internal/rundir"
	"github.com/seed-7879b91d/grpo/internal/snapshot"
	"github.com/seed-7879b91d/grpo/reward"
)

// A checkpoint made at the first evaluation is compared with nothing, a later one with the first; both name the model that they were
// trained from. Evaluations use the run's format_weight, even if the autopilot had tried another.
func TestCheckpointsAreEvaluatedAsTheRunWas(t *testing.T) {
	s := setup{dir: t.TempDir(), words: withPilot("learning_rate=0.0001", "max_steps=2", "save_every=1", "keep_last=0", "eval_every=1")}
	tr, _ := s.open(t)
	tr.pilot.Now[autopilot.Format] = 0.5
	require.NoError(t, tr.Run(t.Context()))
	steps, err := rundir.Steps(s.dir)
	require.NoError(t, err)
	require.Equal(t, []int{0, 1, 2}, steps)
	for _, step := range steps {
		saved, err := OpenSaved(s.dir, step, nil)
		require.NoError(t, err)
		e, err := saved.Evaluator(t.Context(), backend(t, 0), nil, WithGrader(reward.GraderFunc(vowels)))
		require.NoError(t, err)
		require.Equal(t, 0.5, e.Settings().FormatCoef)
		found, err := e.Evaluate(t.Context())
		require.NoError(t, err)
		require.Equal(t, step > 0, found.Change != nil)
		require.NoError(t, e.Close())
		state, err := snapshot.Read(saved.Dir)
		require.NoError(t, err)
		require.NotEmpty(t, state.Parts["model"])
	}
}

// If files that were used for an evaluation of the run have changed, that is reported, and changed problems are not compared with earlier
// results.
func TestFilesThatAreOthersSinceTheRun(t *testing.T) {
	held, wording := filepath.Join(t.TempDir(), "held.jsonl"), filepath.Join(t.TempDir(), "wording")
	rewrite := func(to, from, old, instead string) {
		text, err := os.ReadFile(from)
		require.NoError(t, err)
		require.Contains(t, string(text), old)
		require.NoError(t, os.WriteFile(to, []byte(strings.ReplaceAll(string(text), old, instead)), 0o644))
	}
	rewrite(held, filepath.Join(goldenModel(t), "h.jsonl"), "", "")
	rewrite(wording, filepath.Join(goldenModel(t), "wording"), "", "")
	s := setup{dir: t.TempDir(), words: []string{"max_steps=1", "eval_every=1", "test_data=" + held, "prompt_template=" + wording}}
	tr, _ := s.open(t)
	run(t, tr)
	asked := func() (*listener, Evaluation) {
		l := &listener{}
		saved, err := OpenSaved(s.dir, -1, l)
		require.NoError(t, err)
		e, err := saved.Evaluator(t.Context(), backend(t, 0), nil, WithGrader(reward.GraderFunc(vowels)))
		require.NoError(t, err)
		found, err := e.Evaluate(t.Context())
		require.NoError(t, err)
		require.NoError(t, e.Close())
		return l, found
	}
	l, found := asked()
	require.NotContains(t, strings.Join(l.warnings, "\n"), "changed since the run was trained")
	require.NotNil(t, found.Change)

	rewrite(wording, wording, "{{.Statement}}", "Please: {{.Statement}}")
	l, found = asked()
	require.Contains(t, strings.Join(l.warnings, "\n"),
		"changed since the run was trained, so results do not compare with the run's: prompt_template: has the SHA-256")
	require.NotNil(t, found.Change)
	saved, err := OpenSaved(s.dir, -1, l)
	require.NoError(t, err)
	l.warnings = nil
	_, err = saved.Language(t.Context())
	require.NoError(t, err)
	require.Contains(t, strings.Join(l.warnings, "\n"), "prompt_template: has the SHA-256")

	rewrite(held, held, `"prompt":"ask`, `"prompt":"ask ask`)
	l, found = asked()
	require.Contains(t, strings.Join(l.warnings, "\n"), "test_data: has the SHA-256")
	require.Nil(t, found.Change, "the problems have the same ids")
}

// If the model of a checkpoint has changed, its evaluation reports that. It is compared with the run's first evaluation only for the same
// part of the same problems.
func TestWhatACheckpointIsEvaluatedWith(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("data/tokenizer/testdata/small")))
	require.NoError(t, os.CopyFS(dir, os.DirFS("model/testdata/golden/qwen3-tied")))
	s := setup{dir: filepath.Join(dir, "run"), words: []string{"max_steps=1", "eval_every=1", "model=" + dir}}
	tr, _ := s.open(t)
	run(t, tr)
	evaluated := func(change func(*configs.Config) error) (Evaluation, []string) {
		l := &listener{}
		e, err := OpenRun(t.Context(), s.dir, backend(t, 0), l, change, WithGrader(reward.GraderFunc(vowels)))
		require.NoError(t, err)
		found, err := e.Evaluate(t.Context())
		require.NoError(t, err)
		require.NoError(t, e.Close())
		return found, l.warnings
	}
	found, warnings := evaluated(nil)
	require.NotNil(t, found.Change)
	require.Empty(t, warnings)
	others, err := os.ReadFile(filepath.Join(goldenModel(t), "p.jsonl"))
	require.NoError(t, err)
	renamed := filepath.Join(dir, "renamed.jsonl") // other problems under the same ids
	require.NoError(t, os.WriteFile(renamed, bytes.ReplaceAll(others, []byte(`"id":"p`), []byte(`"id":"h`)), 0o644))
	for _, change := range []func(*configs.Config) error{
		func(c *configs.Config) error { c.TestSplit = "all"; return nil },
		func(c *configs.Config) error { c.TestData = renamed; return nil },
	} {
		found, _ = evaluated(change)
		require.Nil(t, found.Change)
	}

	settings := filepath.Join(dir, "tokenizer_config.json")
	text, err := os.ReadFile(settings)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(settings, append(text, '\n'), 0o644))
	_, warnings = evaluated(nil)
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], "the model differs from the one that the run trained: "+
		"model: tokenizer_config.json changed (fingerprint of all its files ")
	l := &listener{}
	saved, err := OpenSaved(s.dir, -1, l)
	require.NoError(t, err)
	_, err = saved.Language(t.Context())
	require.NoError(t, err)
	require.Equal(t, warnings, l.warnings)
}
