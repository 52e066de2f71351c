package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/internal/race"
)

// Settings and flags of other trainers are answered with the equivalent here.
func TestHabitsAreAnswered(t *testing.T) {
	run := filepath.Join(t.TempDir(), "run")
	for _, step := range []string{"step_000010", "step_000020"} {
		dir := filepath.Join(run, "checkpoints", step, "adapter")
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, os.CopyFS(dir, os.DirFS(golden("qwen3-tied", "adapter"))))
	}
	for line, says := range map[string][]string{
		"train":                            {"train: training needs no verb", "type grpo [key=value …]"},
		"train learning_rate=1e-4":         {"training needs no verb"},
		"run":                              {"training needs no verb"},
		"--learning_rate=1":                {"--learning_rate is a setting, not a flag; type learning_rate=VALUE"},
		"--max-steps 3":                    {"type max_steps=VALUE"},
		"--num-generations 8":              {"--num-generations: it is completions_per_prompt here; type completions_per_prompt=VALUE"},
		"num_generations=8":                {"num_generations: it is completions_per_prompt here; type completions_per_prompt=8"},
		"--nonsense":                       {"unknown flag", "--help"},
		"learning_rate":                    {"learning_rate: a setting has a value; type learning_rate=VALUE"},
		"beta=0.1":                         {"beta: it is kl_coef here", "type kl_coef=0.1"},
		"beta=0.1 seed=x learning_rate=-1": {"beta: ", `seed: found "x"`, "learning_rate: found -1"},
		"model seed train":                 {"model: a setting has a value; type model=VALUE", "seed: a setting", "training needs no verb"},
		"adapter=" + run:                   {"adapter: ", "such as " + filepath.Join(run, "checkpoints", "step_000020", "adapter")},
		"sample --model tiny --prompt x --adapter " + run: {"such as " + filepath.Join(run, "checkpoints", "step_000020", "adapter")},
	} {
		out, errs, code := shell(t, "", strings.Fields(line)...)
		requireBadInput(t, out, errs, code, says...)
	}
}

// The name of the embedded model is accepted wherever a model is expected.
func TestEveryVerbKnowsTheModelOfTheProgram(t *testing.T) {
	race.SkipCovered(t)
	dir, err := grpo.ModelDir(t.Context(), "tiny")
	require.NoError(t, err)
	text := func(stdin, line string) string {
		t.Helper()
		byName, errs, code := shell(t, stdin, strings.Fields(line)...)
		require.Zero(t, code, errs)
		byDir, errs, code := shell(t, stdin, strings.Fields(strings.ReplaceAll(line, "tiny", dir))...)
		require.Zero(t, code, errs)
		require.Equal(t, byDir, byName)
		return byName
	}
	require.Contains(t, text(`{"tokens":[5,6,7]}`, "score --model tiny"), "logprobs")
	require.Contains(t, text("", "sample --model tiny --prompt hello --max-tokens 4 --json"), "logprobs")
	require.Contains(t, text(`{"text":"def add"}`, "tokenize --tokenizer tiny"), "ids")
	datums := filepath.Join(t.TempDir(), "d.jsonl")
	require.NoError(t, os.WriteFile(datums, []byte(`{"tokens":[1,2,3],"ob_len":1,"logprobs":[-1,-1],"advantage":1}`), 0o644))
	adapter := filepath.Join(t.TempDir(), "adapter")
	out, errs, code := shell(t, "", strings.Fields(fmt.Sprintf(
		"replay --model tiny --rank 4 --datums %s --steps 3 --out %s learning_rate=0.1", datums, adapter))...)
	require.Zero(t, code, "%s%s", out, errs)
	out, errs, code = shell(t, "", "merge", "--model", "tiny", "--adapter", adapter, "--out", filepath.Join(t.TempDir(), "merged"))
	require.Zero(t, code, errs)
	require.Contains(t, out, "% of the adapter is in the rounded weights")
}

// A completion ends where the chat format ends a turn, whatever config.json says.
func TestSampleStopsAtTheEndOfATurn(t *testing.T) {
	dir, err := grpo.ModelDir(t.Context(), "tiny")
	require.NoError(t, err)
	tok, err := tokenizer.Load(dir)
	require.NoError(t, err)
	f := promptFlags{prompt: "hello"}
	_, _, turnEnd, err := f.open(dir, nil)
	require.NoError(t, err)
	require.Equal(t, tok.EncodeSpecial("<|im_end|>"), turnEnd[:1])

	// A model whose config names another token.
	other := t.TempDir()
	require.NoError(t, os.CopyFS(other, os.DirFS(dir)))
	for _, name := range []string{"config.json", "generation_config.json", "tokenizer_config.json"} {
		if _, err := os.Stat(filepath.Join(other, name)); err == nil {
			rewrite(t, filepath.Join(other, name), func(b []byte) []byte {
				text := strings.ReplaceAll(string(b), `"eos_token_id": `+fmt.Sprint(turnEnd[0]), `"eos_token_id": 0`)
				return []byte(strings.ReplaceAll(text, `"eos_token": "<|im_end|>"`, `"eos_token": "<|endoftext|>"`))
			})
		}
	}
	line := "sample --prompt Code --max-tokens 200 --temperature 0 --json --renderer qwen3_instruct --model "
	want, errs, code := shell(t, "", strings.Fields(line+dir)...)
	require.Zero(t, code, errs)
	got, errs, code := shell(t, "", strings.Fields(line+other)...)
	require.Zero(t, code, errs)
	require.Equal(t, want, got)
	require.Contains(t, got, `"stop"`)
}

func TestVersion(t *testing.T) {
	out, errs, code := shell(t, "", "--version")
	require.Zero(t, code, errs)
	require.Regexp(t, `^grpo version .+, .*commit.*, go1\.\d+.* \S+/\S+, cpu: .*portable\n$`, out)
}
