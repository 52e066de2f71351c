package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/rundir"
	"github.com/seed-7879b91d/grpo/internal/tiny"
)

// A run named alone continues with its own settings; settings typed with it override those, and the initial ones stay on record.
func TestANamedRunBringsItsSettings(t *testing.T) {
	race.SkipCovered(t)
	o := newFakeSandbox(t)
	folder, child := t.TempDir(), filepath.Join(t.TempDir(), "child")
	run := filepath.Join(folder, "run")
	whole, _ := o.finish(t, t.TempDir())
	o.finish(t, folder, "max_steps=2")
	first, err := os.ReadFile(filepath.Join(run, "config.json"))
	require.NoError(t, err)

	say := func(words ...string) string {
		t.Helper()
		out, errs, code := shell(t, "", words...)
		require.Zero(t, code, errs)
		return out + errs
	}
	require.Contains(t, say("--print-config", "run_dir="+run), "\nmax_steps: 2\n")
	require.Contains(t, say("--quiet", "run_dir="+run), "has done all of its 2 steps")
	out, errs, code := shell(t, "", "--quiet", "run_dir="+run, "max_steps=1")
	requireBadInput(t, out, errs, code, "max_steps: found 1", "has 2 steps already")
	says := say("--quiet", "run_dir="+run, "max_steps=4", "grad_clip_norm=1e9")
	require.Contains(t, says, "settings changed since the last start of the run: grad_clip_norm: 0 → 1e9, max_steps: 2 → 4")
	got := runFiles(t, folder)
	require.Equal(t, whole["rollouts.jsonl"], got["rollouts.jsonl"], "the problems and the model are on record")
	now, err := os.ReadFile(filepath.Join(run, "config.json"))
	require.NoError(t, err)
	require.Equal(t, string(first), string(now))

	require.Contains(t, say("--print-config", "run_dir="+run), "\nmax_steps: 4\n", "a run continues with its last settings")
	saved := filepath.Join(run, "checkpoints", "step_000002")
	require.Contains(t, say("--print-config", "resume="+saved), "\nmax_steps: 2\n",
		"a checkpoint continues with the settings that it was made with")
	link := filepath.Join(t.TempDir(), "best")
	require.NoError(t, os.Symlink(filepath.Join(run, "checkpoints", "step_000004"), link))
	require.Contains(t, say("--print-config", "resume="+link), "\nmax_steps: 4\n", "a link to a checkpoint is followed")
	past, err := provenance.Read(run)
	require.NoError(t, err)
	for step, clip := range map[int]float64{2: 0, 3: 1e9} {
		cfg, _, err := past.At(step)
		require.NoError(t, err)
		require.Equal(t, clip, cfg.GradClipNorm)
	}

	says = say("--quiet", "init_from="+run, "run_dir="+child, "max_steps=5", "loss=ppo", "seed=7", "learning_rate=1e-4")
	require.NotContains(t, says, "!")
	cfg, err := provenance.SettingsOf(child)
	require.NoError(t, err)
	require.Equal(t, []any{"tiny", "ppo", uint64(7), 2, 40, run},
		[]any{cfg.Model, cfg.Loss, cfg.Seed, cfg.PromptsPerStep, cfg.MaxTokens, cfg.InitFrom})
	require.Contains(t, say("--quiet", "run_dir="+child), "has done all of its 5 steps")
	out, errs, code = shell(t, "", "--preset", "tiny_smoke", "--quiet", "run_dir="+run, "data=nowhere.jsonl", "eval_every=-1")
	requireBadInput(t, out, errs, code, "data: tiny → nowhere.jsonl")

	narrow := narrowed(t)
	_, errs, code = shell(t, "", "--quiet", "run_dir="+run, "model="+narrow, "allow_change=model,prompt_template")
	require.Equal(t, 2, code, errs)
	require.Contains(t, errs, "does not fit the model")
	require.Contains(t, errs, "as in its config.json")
}

// The settings of a run are stored twice.
func TestLostSettingsComeBack(t *testing.T) {
	race.SkipCovered(t)
	o := newFakeSandbox(t)
	folder := t.TempDir()
	run := filepath.Join(folder, "run")
	config := filepath.Join(run, "config.json")
	o.finish(t, folder, "max_steps=2")
	first, err := os.ReadFile(config)
	require.NoError(t, err)
	for _, damage := range []string{"", "{", `{"version": "x"}`, "{}"} {
		require.NoError(t, os.Remove(config))
		if damage != "" {
			write(t, config, damage)
		}
		out, errs, code := shell(t, "", "--quiet", "run_dir="+run)
		require.Zero(t, code, errs)
		require.Contains(t, errs, "config.json was missing or damaged, and is rewritten")
		require.Contains(t, out+errs, "has done all of its 2 steps")
		now, err := os.ReadFile(config)
		require.NoError(t, err)
		require.Equal(t, string(first), string(now))
	}
	require.NoError(t, os.Remove(config))
	require.NoError(t, os.Remove(filepath.Join(run, "manifest.json")))
	out, errs, code := shell(t, "", "--quiet", "run_dir="+run)
	requireBadInput(t, out, errs, code, "has no config.json with its settings; give them by --preset or --config-file")
}

// Changes of a run's input files are noticed.
func TestChangedFilesAreNoticed(t *testing.T) {
	race.SkipCovered(t)
	o := newFakeSandbox(t)
	folder, files := t.TempDir(), t.TempDir()
	run, model := filepath.Join(folder, "run"), filepath.Join(files, "model")
	require.NoError(t, tiny.Extract(model))
	wording := write(t, filepath.Join(files, "wording"), "Do this:\n{{.Statement}}")
	blocked := write(t, filepath.Join(files, "blocked"), "import os\n")
	o.finish(t, folder, "model="+model, "prompt_template="+wording, "blocklist="+blocked, "max_steps=2")
	weights := filepath.Join(model, "model.safetensors")
	flip := func(text []byte) []byte { text = slices.Clone(text); text[len(text)-1] ^= 1; return text }
	for key, path := range map[string]string{"model": weights, "prompt_template": wording, "blocklist": blocked} {
		was, err := os.ReadFile(path)
		require.NoError(t, err)
		if key == "model" {
			rewrite(t, path, flip)
		} else {
			rewrite(t, path, func(text []byte) []byte { return append([]byte("x"), text...) })
		}
		out, errs, code := shell(t, "", "--dry-run", "run_dir="+run, "max_steps=3")
		require.Equal(t, 2, code, errs)
		require.Empty(t, out)
		require.Contains(t, errs, key+": ")
		require.Contains(t, errs, "allow_change="+key+" to accept the change")
		out, errs, code = shell(t, "", "--dry-run", "run_dir="+run, "max_steps=3", "allow_change="+key)
		require.Zero(t, code, errs)
		require.Regexp(t, `run: resumes from .*, after step \d`, out)
		if key == "model" {
			out, errs, code = shell(t, "", "replay", "--run", run, "--step", "2")
			requireBadInput(t, out, errs, code, "trained with other files: model: model.safetensors changed")
		}
		require.NoError(t, os.WriteFile(path, was, 0o644))
	}
	_, errs, code := shell(t, "", "--quiet", "run_dir="+run, "max_steps=3")
	require.Zero(t, code, errs)

	// A checkpoint of an older release has no hashes of them; the run resumes from it all the same.
	for _, dir := range []string{"step_000002", "step_000003"} {
		rewrite(t, filepath.Join(run, "checkpoints", dir, "state.json"), toVersion2(t))
	}
	rewrite(t, blocked, func(text []byte) []byte { return append(text, 'y', '\n') })
	_, errs, code = shell(t, "", "--quiet", "run_dir="+run, "max_steps=4")
	require.Zero(t, code, errs)
}

// toVersion2 converts a state to version 2.
func toVersion2(t *testing.T) func([]byte) []byte {
	return func(text []byte) []byte {
		var s map[string]any
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		require.NoError(t, d.Decode(&s))
		require.Contains(t, s, "parts")
		delete(s, "parts")
		s["version"], s["seal"] = 2, ""
		text, err := rundir.Seal(s)
		require.NoError(t, err)
		return text
	}
}
