package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/tiny"
)

// An adapter of a run belongs to the model that it was trained on: every verb refuses to apply it to another one, and says what to type.
func TestAdaptersStayWithTheirBase(t *testing.T) {
	race.SkipCovered(t)
	needsSandbox(t)
	tasks(t)
	folder := t.TempDir()
	model, run, link := filepath.Join(folder, "model"), filepath.Join(folder, "run"), filepath.Join(folder, "link")
	require.NoError(t, tiny.Extract(model))
	small := smallest(model)
	_, errs, code := shell(t, "", append(small, "run_dir="+run)...)
	require.Zero(t, code, errs)
	adapter, copied := filepath.Join(run, "checkpoints", "step_000001", "adapter"), filepath.Join(folder, "copy")
	require.NoError(t, os.CopyFS(copied, os.DirFS(adapter)))
	require.NoError(t, os.Symlink(adapter, link))
	tokens := write(t, filepath.Join(folder, "t.jsonl"), `{"tokens":[5,6,7]}`+"\n")
	spoken := []string{"generation_config.json", "chat_template.jinja"} // these affect prompts, not weights
	for _, name := range spoken {
		path := filepath.Join(model, name)
		if _, err := os.Stat(path); err == nil {
			rewrite(t, path, func(text []byte) []byte { return append(text, '\n') })
		}
	}
	score := []string{"score", "--model", model, "--threads", "1", "--adapter"}
	want, errs, code := shell(t, `{"tokens":[5,6,7]}`, append(score, adapter)...)
	require.Zero(t, code, errs)
	require.NotEmpty(t, want)

	rewrite(t, filepath.Join(model, "model.safetensors"), func(all []byte) []byte {
		all[len(all)-2] ^= 1
		return all
	})
	for _, line := range append(overAdapter(t, model, adapter, folder),
		"eval --run "+run, "eval --run "+filepath.Dir(adapter), "sample --prompt x --run "+run, "serve --listen 127.0.0.1:0 --run "+run,
		"export-model "+run+" --out "+filepath.Join(folder, "exported"),
		"sample --tokens "+tokens+" --model "+model+" --adapter "+link,
	) {
		out, errs, code := shell(t, "", strings.Fields(line)...)
		requireBadInput(t, out, errs, code, "trained on another model: model: model.safetensors changed (fingerprint", "use that one",
			"cp -r ", " COPY")
	}
	requireNothingMade(t, folder)
	got, errs, code := shell(t, `{"tokens":[5,6,7]}`, append(score, copied)...)
	require.Zero(t, code, "a copied adapter has no recorded base: %s", errs)
	require.NotEmpty(t, got)
}

// smallest are the arguments of a run of one small step of a model.
func smallest(model string) []string {
	return []string{"--quiet", "--preset", "tiny_smoke", "model=" + model, "threads=1", "max_steps=1", "prompts_per_step=2", "eval_every=-1",
		"completions_per_prompt=2", "max_tokens=4", "lora_rank=2", "lora_alpha=4"}
}

// overAdapter are the verbs that apply a named adapter to a model, with the files in folder that they need and write.
func overAdapter(t *testing.T, model, adapter, folder string) []string {
	datums := write(t, filepath.Join(folder, "d.jsonl"), `{"tokens":[1,2,3],"ob_len":1,"logprobs":[-1,-1],"advantage":1}`)
	chats := write(t, filepath.Join(folder, "c.jsonl"), `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}`)
	wording := "prompt_template=" + filepath.Join("..", "..", "internal", "tiny", "prompt.tmpl")
	return []string{
		"eval " + wording + " --model " + model + " --adapter " + adapter,
		"sample --prompt x --model " + model + " --adapter " + adapter,
		"score --model " + model + " --adapter " + adapter,
		"serve --listen 127.0.0.1:0 --max-sequences 4 --model " + model + " --adapter trained=" + adapter,
		"merge --model " + model + " --adapter " + adapter + " --out " + filepath.Join(folder, "merged"),
		"export-model --model " + model + " --adapter " + adapter + " --out " + filepath.Join(folder, "exported"),
		"replay --model " + model + " --adapter " + adapter + " --datums " + datums + " --out " + filepath.Join(folder, "next"),
		strings.Join(smallest(model), " ") + " adapter=" + adapter + " run_dir=" + filepath.Join(folder, "new"),
		"sft model=" + model + " lora_rank=2 lora_alpha=4 data=" + chats + " run_dir=" + filepath.Join(folder, "warm") + " adapter=" + adapter,
	}
}

// requireNothingMade requires that none of them has written its result.
func requireNothingMade(t *testing.T, folder string) {
	t.Helper()
	for _, made := range []string{"exported", "merged", "next", "new", "warm"} {
		require.NoDirExists(t, filepath.Join(folder, made))
	}
}

// No verb accepts an adapter from a checkpoint whose files have changed: a flipped bit, another alpha. A copy outside is accepted as it
// is.
func TestDamagedAdaptersAreNotTaken(t *testing.T) {
	race.SkipCovered(t)
	needsSandbox(t)
	tasks(t)
	folder := t.TempDir()
	model, run := filepath.Join(folder, "model"), filepath.Join(folder, "run")
	require.NoError(t, tiny.Extract(model))
	_, errs, code := shell(t, "", append(smallest(model), "run_dir="+run)...)
	require.Zero(t, code, errs)
	adapter, copied := filepath.Join(run, "checkpoints", "step_000001", "adapter"), filepath.Join(folder, "copy")
	score := func(adapter string) string {
		out, errs, code := shell(t, `{"tokens":[5,6,7]}`, "score", "--model", model, "--threads", "1", "--adapter", adapter)
		require.Zero(t, code, errs)
		return out
	}
	whole := score(adapter)
	for name, change := range map[string]func([]byte) []byte{
		"adapter_model.safetensors": func(all []byte) []byte {
			all[len(all)-1] ^= 0x40
			return all
		},
		"adapter_config.json": func(all []byte) []byte {
			changed := bytes.Replace(all, []byte(`"lora_alpha": 4`), []byte(`"lora_alpha": 64`), 1)
			require.NotEqual(t, all, changed)
			return changed
		},
	} {
		path := filepath.Join(adapter, name)
		was, err := os.ReadFile(path)
		require.NoError(t, err)
		rewrite(t, path, change)
		for _, line := range overAdapter(t, model, adapter, folder) {
			out, errs, code := shell(t, "", strings.Fields(line)...)
			requireBadInput(t, out, errs, code, "checkpoint "+filepath.Dir(adapter)+": adapter/"+name+" is damaged: its sha256 is ",
				"restore it", "cp -r "+adapter+" COPY")
		}
		requireNothingMade(t, folder)
		require.NoError(t, os.CopyFS(copied, os.DirFS(adapter)))
		require.NotEmpty(t, score(copied), "a copy has no recorded hash")
		require.NoError(t, os.RemoveAll(copied))
		require.NoError(t, os.WriteFile(path, was, 0o644))
	}
	require.Equal(t, whole, score(adapter))
}

// The same for a fully trained model in a checkpoint.
func TestDamagedModelsAreNotTaken(t *testing.T) {
	race.SkipCovered(t)
	needsSandbox(t)
	tasks(t)
	folder := t.TempDir()
	run := filepath.Join(folder, "run")
	model := filepath.Join(run, "checkpoints", "step_000001", "model")
	words := smallest("tiny")
	words = words[:len(words)-2] // those of an adapter
	_, errs, code := shell(t, "", append(words, "run_dir="+run, "train=full")...)
	require.Zero(t, code, errs)
	out, errs, code := shell(t, `{"tokens":[5,6,7]}`, "score", "--model", model, "--threads", "1")
	require.Zero(t, code, errs)
	require.NotEmpty(t, out)
	rewrite(t, filepath.Join(model, "model.safetensors"), func(all []byte) []byte {
		all[len(all)-1] ^= 0x40
		return all
	})
	made := filepath.Join(folder, "out")
	for _, words := range [][]string{
		{"score", "--model", model}, {"quantize", "--model", model, "--out", made}, {"serve", "--model", model, "--listen", "127.0.0.1:0"},
		{"export-model", "--model", model, "--format", "gguf", "--out", made},
		append(smallest(model), "run_dir="+filepath.Join(folder, "next")),
	} {
		out, errs, code := shell(t, "", words...)
		requireBadInput(t, out, errs, code, ": model/model.safetensors is damaged: its sha256 is ", "cp -r "+model+" COPY")
	}
	require.NoFileExists(t, made)
}
