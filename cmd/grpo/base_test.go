package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/racing"
	"github.com/seed-7879b91d/grpo/internal/tiny"
)

// An adapter of a run belongs to the model that it was trained over: no verb lays it over another one, which says so and what to type.
func TestAdaptersStayWithTheirBase(t *testing.T) {
	racing.Again(t)
	needsCells(t)
	tasks(t)
	folder := t.TempDir()
	model, run, link := filepath.Join(folder, "model"), filepath.Join(folder, "run"), filepath.Join(folder, "link")
	require.NoError(t, tiny.Extract(model))
	wording := "prompt_template=" + filepath.Join("..", "..", "internal", "tiny", "prompt.tmpl")
	small := []string{"--quiet", "--preset", "tiny_smoke", "model=" + model, "threads=1", "max_steps=1", "prompts_per_step=2", "eval_every=-1",
		"completions_per_prompt=2", "max_tokens=4", "lora_rank=2", "lora_alpha=4"}
	_, errs, code := shell(t, "", append(small, "run_dir="+run)...)
	require.Zero(t, code, errs)
	adapter, copied := filepath.Join(run, "checkpoints", "step_000001", "adapter"), filepath.Join(folder, "copy")
	require.NoError(t, os.CopyFS(copied, os.DirFS(adapter)))
	require.NoError(t, os.Symlink(adapter, link))
	tokens := write(t, filepath.Join(folder, "t.jsonl"), `{"tokens":[5,6,7]}`+"\n")
	datums := write(t, filepath.Join(folder, "d.jsonl"), `{"tokens":[1,2,3],"ob_len":1,"logprobs":[-1,-1],"advantage":1}`)
	chats := write(t, filepath.Join(folder, "c.jsonl"), `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}`)
	spoken := []string{"generation_config.json", "chat_template.jinja"} // which say how the model is asked, and no more
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
	for _, line := range []string{
		"eval --run " + run, "eval --run " + filepath.Dir(adapter), "sample --prompt x --run " + run, "serve --listen 127.0.0.1:0 --run " + run,
		"export-model " + run + " --out " + filepath.Join(folder, "exported"),
		"eval " + wording + " --model " + model + " --adapter " + adapter,
		"sample --prompt x --model " + model + " --adapter " + adapter,
		"sample --tokens " + tokens + " --model " + model + " --adapter " + link,
		"score --model " + model + " --adapter " + adapter,
		"serve --listen 127.0.0.1:0 --model " + model + " --adapter trained=" + adapter,
		"merge --model " + model + " --adapter " + adapter + " --out " + filepath.Join(folder, "merged"),
		"export-model --model " + model + " --adapter " + adapter + " --out " + filepath.Join(folder, "exported"),
		"replay --model " + model + " --adapter " + adapter + " --datums " + datums + " --out " + filepath.Join(folder, "next"),
		strings.Join(small, " ") + " adapter=" + adapter + " run_dir=" + filepath.Join(folder, "new"),
		"sft model=" + model + " lora_rank=2 lora_alpha=4 data=" + chats + " run_dir=" + filepath.Join(folder, "warm") + " adapter=" + adapter,
	} {
		out, errs, code := shell(t, "", strings.Fields(line)...)
		requireBadInput(t, out, errs, code, "was trained over another model: model: model.safetensors has the SHA-256 ", "bring that one back",
			"cp -r ", " COPY")
	}
	for _, made := range []string{"exported", "merged", "next", "new", "warm"} {
		require.NoDirExists(t, filepath.Join(folder, made))
	}
	got, errs, code := shell(t, `{"tokens":[5,6,7]}`, append(score, copied)...)
	require.Zero(t, code, "a copy is nobody's: %s", errs)
	require.NotEmpty(t, got)
}
