package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/internal/tiny"
)

// Each mistake on a command line is reported in one line, and nothing is written.
func TestMistakesAreToldBeforeAnythingIsDone(t *testing.T) {
	o := newFakeSandbox(t)
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, "file"), "")
	other := filepath.Join(dir, "other")
	require.NoError(t, tiny.Extract(other))
	rewrite(t, filepath.Join(other, "config.json"), func(text []byte) []byte {
		return bytes.Replace(text, []byte("Qwen3ForCausalLM"), []byte("GPT2LMHeadModel"), 1)
	})
	task := `{"id":"a","prompt":"Print 1.","tests":[{"input":"1","output":"1"}]}` + "\n"
	malformed := write(t, filepath.Join(dir, "malformed.jsonl"), task+`{"id":"b","prompt":`+"\n")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "empty"), 0o755))
	require.NoError(t, os.Symlink(dir+"/nothing", filepath.Join(dir, "link")))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, ".git", "objects"), 0o755))
	require.NoError(t, os.Mkdir(filepath.Join(dir, ".git", "refs"), 0o755))
	write(t, filepath.Join(dir, ".git", "HEAD"), "")
	before, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, c := range []struct {
		words string
		says  []string
	}{
		{"lerning_rate=1", []string{"lerning_rate", "did you mean learning_rate?"}},
		{"clip_low=2 loss=ppo", []string{"clip_low", "found 2", "expected at most 1"}},
		{"eval_k=4 eval_samples=2", []string{"eval_k", "eval_samples"}},
		{"model=" + dir + "/none", []string{"none", "no such directory"}},
		{"model=" + other, []string{"config.json", "GPT2LMHeadModel", "supported: Qwen3ForCausalLM"}},
		{"eval_every=-1 data=" + file, []string{file, "expected"}},
		{"eval_every=-1 data=" + dir + "/none.jsonl", []string{"data " + dir + "/none.jsonl: no such file; type data=PATH"}},
		{"test_data=" + dir + "/none.jsonl", []string{"test_data " + dir + "/none.jsonl: no such file; type test_data=PATH"}},
		{"eval_every=-1 data=" + malformed, []string{"malformed.jsonl:2", "grpo data inspect"}},
		{"sandbox=local sandbox_url= python=nonexistent", []string{`"nonexistent": not found`, "python=PATH"}},
		{"run_dir=" + file, []string{"run_dir", "not a directory", "choose another"}},
		{"run_dir=" + file + "/run", []string{"run_dir", "not a directory", "choose another"}},
		{"run_dir=" + other, []string{"run_dir=" + other, "has a config.json that belongs to no run"}},
		{"run_dir=" + dir + "/run adapter=" + dir + "/none", []string{"adapter: ", dir + "/none", "no such file", "PEFT adapter"}},
		{"run_dir=" + dir + "/run adapter=" + dir + "/empty", []string{"adapter: ", dir + "/empty", "no such file", "PEFT adapter"}},
		{"run_dir=" + dir + "/link", []string{"run_dir: " + dir + "/link is a link to " + dir + "/nothing, which does not exist"}},
		{"run_dir=" + dir + "/none/../run", []string{"leads through " + dir + "/none, which does not exist; type run_dir=" + dir + "/run"}},
		{"run_dir=" + dir + "/.git", []string{"/.git is where git keeps a repository; choose a separate directory for the run"}},
		{"run_dir=/proc/run", []string{"run_dir", "choose another"}},
		{"resume=" + dir + "/none", []string{"resume=" + dir + "/none", "no checkpoint to resume from; expected resume=DIR of a run"}},
		{"resume=" + dir + "/empty", []string{"no checkpoint to resume from"}},
		{"run_dir=" + dir + "/run init_from=" + dir + "/empty", []string{"init_from=" + dir, "expected init_from=DIR of a run"}},
		{"run_dir=" + dir + "/run resume=" + dir + "/empty", []string{"leave run_dir out"}},
		{"run_dir=" + dir + "/run deterministic=true", []string{"deterministic", "sandbox=local"}},
	} {
		out, errs, code := shell(t, "", o.words(strings.Fields(c.words)...)...)
		requireBadInput(t, out, errs, code, c.says...)
	}
	t.Setenv("PATH", "")
	out, errs, code := shell(t, "", o.words("sandbox=local", "sandbox_url=", "run_dir="+dir+"/run")...)
	requireBadInput(t, out, errs, code, `"python3": not found`, "install Python")
	after, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// resumeRefusal is a reason to refuse to resume a run: a change to its directory, with its undoing, or arguments, and the message.
type resumeRefusal struct {
	spoil func(t *testing.T, run string) (mend func())
	words []string
	says  []string
}

// lockRun starts a process that trains in the run.
func lockRun(t *testing.T, run string) (mend func()) {
	f, err := os.Open(run)
	require.NoError(t, err)
	require.NoError(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
	return func() { f.Close() }
}

// halved truncates a file of the run to half.
func halved(name string) func(*testing.T, string) func() {
	return shortened(name, func(n int) int { return n / 2 })
}

// emptied truncates a file of the run to nothing.
func emptied(name string) func(*testing.T, string) func() {
	return shortened(name, func(int) int { return 0 })
}

func shortened(name string, to func(n int) int) func(*testing.T, string) func() {
	return func(t *testing.T, run string) func() {
		path := filepath.Join(run, name)
		was, err := os.ReadFile(path)
		require.NoError(t, err)
		write(t, path, string(was[:to(len(was))]))
		return func() { write(t, path, string(was)) }
	}
}

// editedSettings edits the stored settings of a run.
func editedSettings(t *testing.T, run string) func() {
	path := filepath.Join(run, "config.json")
	was, err := os.ReadFile(path)
	require.NoError(t, err)
	write(t, path, strings.Replace(string(was), `"temperature": 1,`, `"temperature": 0.5,`, 1))
	return func() { write(t, path, string(was)) }
}

// resumeRefusals are those of a run of four steps with a checkpoint every second, and of a model with one layer less.
func resumeRefusals(run, narrow string) map[string]resumeRefusal {
	checkpoint := filepath.Join(run, "checkpoints", "step_000004")
	return map[string]resumeRefusal{
		"another model": {nil, []string{"model=" + narrow}, []string{"model: tiny → " + narrow, "allow_change=model "}},
		"other problems": {nil, []string{"data=" + narrow, "eval_every=-1"}, []string{"data: tiny → ", "test_data: tiny → ",
			"allow_change=data,test_data "}},
		"another loss":      {nil, []string{"loss=ppo"}, []string{"loss: importance_sampling → ppo", "init_from=" + run}},
		"another reward":    {nil, []string{"reward=fraction", "advantage=std"}, []string{"advantage: mean → std, reward: correct → fraction"}},
		"a fork of another": {nil, []string{"init_from=" + run + "2"}, []string{"init_from=" + run + "2", "already has a run"}},
		"in a checkpoint":   {nil, []string{"run_dir=" + checkpoint}, []string{"is a checkpoint of a run; type resume=" + checkpoint}},
		"above a run":       {nil, []string{"run_dir=" + filepath.Dir(run)}, []string{"contains other runs, such as ", "choose a new directory"}},
		"in its checkpoints": {nil, []string{"run_dir=" + filepath.Dir(checkpoint)},
			[]string{"has the checkpoints of a run; type run_dir=" + run}},
		"another rank":       {nil, []string{"lora_rank=8"}, []string{checkpoint, "rank", "as in its config.json", "another run_dir"}},
		"another seed":       {nil, []string{"seed=7"}, []string{"seed: 0 → 7", "allow_change=seed "}},
		"trained as a whole": {nil, []string{"train=full"}, []string{checkpoint, "the trained weights", "as in its config.json"}},
		"never resumed":      {nil, []string{"resume=never"}, []string{"2 checkpoints", "type resume=auto to resume it"}},
		"a checkpoint that is not there": {nil, []string{"run_dir=", "resume=" + filepath.Join(run, "checkpoints", "step_000009")},
			[]string{"step 9 has no checkpoint; there are 2, 4"}},
		"settings edited":    {editedSettings, nil, []string{"config.json was edited since the run began: temperature: 1 → 0.5; remove it"}},
		"manifest damaged":   {halved("manifest.json"), nil, []string{"manifest.json", "remove it to continue without it"}},
		"metrics shortened":  {emptied("metrics.jsonl"), nil, []string{"metrics.jsonl", "somebody shortened it", "init_from=" + checkpoint}},
		"trained in already": {lockRun, nil, []string{"run_dir", "another process is training in " + run}},
	}
}

// narrowed is the tiny model with one layer less.
func narrowed(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "narrow")
	require.NoError(t, tiny.Extract(dir))
	rewrite(t, filepath.Join(dir, "config.json"), func(text []byte) []byte {
		var c map[string]any
		require.NoError(t, json.Unmarshal(text, &c))
		c["num_hidden_layers"] = c["num_hidden_layers"].(float64) - 1
		text, err := json.Marshal(c)
		require.NoError(t, err)
		return text
	})
	dropLayer(t, filepath.Join(dir, tensorfile.SingleName), "model.layers.3.")
	return dir
}

// dropLayer removes the tensors of one layer from a file.
func dropLayer(t *testing.T, path, layer string) {
	f, err := tensorfile.Open(path)
	require.NoError(t, err)
	defer f.Close()
	var kept []tensorfile.Source
	for _, name := range f.Names() {
		if strings.HasPrefix(name, layer) {
			continue
		}
		tensor, err := f.Tensor(name)
		require.NoError(t, err)
		kept = append(kept, tensorfile.FromTensor(tensor))
	}
	require.NoError(t, tensorfile.Write(path, kept, f.Metadata()))
}

// A run that cannot be resumed as requested is left unchanged.
func TestRunsThatDoNotFitAreLeftAlone(t *testing.T) {
	race.SkipCovered(t)
	o := newFakeSandbox(t)
	folder := t.TempDir()
	run := filepath.Join(folder, "run")
	want, _ := o.finish(t, folder)
	for name, c := range resumeRefusals(run, narrowed(t)) {
		t.Run(name, func(t *testing.T) {
			mend := func() {}
			if c.spoil != nil {
				mend = c.spoil(t, run)
			}
			out, errs, code := shell(t, "", withSettings(o.words("run_dir="+run), c.words...)...)
			requireBadInput(t, out, errs, code, c.says...)
			mend()
		})
	}
	got, _ := o.finish(t, folder)
	requireSameRun(t, want, got)
	whole, _ := o.finish(t, t.TempDir(), "max_steps=6")
	got, says := o.finish(t, folder, "max_steps=6")
	require.Contains(t, says, "max_steps: 4 → 6")
	requireSameEnd(t, whole, got)
}

// Control characters in the name of a run's directory are escaped, and the name stays on one line, in all output.
func TestADirectoryOfControlCharacters(t *testing.T) {
	race.SkipCovered(t)
	o := newFakeSandbox(t)
	run := filepath.Join(t.TempDir(), "a\x1b[31mb\nc")
	words := o.words("max_steps=1", "eval_every=-1", "run_dir="+run)
	words = slices.DeleteFunc(words, func(w string) bool { return w == "--quiet" })
	for _, how := range []string{"a new run", "has done all of its 1 step", "resumes from"} {
		out, errs, code := shell(t, "", words...)
		require.Zero(t, code, errs)
		require.Contains(t, errs, how)
		require.Contains(t, out, "/a␛[31mb␊c; look at ")
		require.NotContains(t, out+errs, "\x1b")
		require.NotContains(t, out+errs, "b\nc")
		if how != "a new run" {
			words = withSettings(words, "max_steps=2")
		}
	}
	text, err := os.ReadFile(filepath.Join(run, "logs.log"))
	require.NoError(t, err)
	require.NotContains(t, string(text), "b\nc")
}
