package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/cmd/grpo/outcome"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/rollouts"
	"github.com/seed-7879b91d/grpo/internal/tiny"
)

// embedded are n lines of a file of the embedded problems, from a given one on.
func embedded(t *testing.T, name string, from, n int) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "internal", "tiny", name))
	require.NoError(t, err)
	return strings.SplitAfter(string(text), "\n")[from : from+n]
}

// runOnOwnProblems is a finished run on its own problems, two of which are in both the training and the held-out data.
func runOnOwnProblems(t *testing.T, words ...string) (dir, train, held string) {
	t.Helper()
	needsSandbox(t)
	tasks(t)
	folder := t.TempDir()
	train, held = filepath.Join(folder, "train.jsonl"), filepath.Join(folder, "held.jsonl")
	write(t, train, strings.Join(embedded(t, "train.jsonl", 0, 6), ""))
	write(t, held, strings.Join(append(embedded(t, "heldout.jsonl", 0, 3), append(embedded(t, "train.jsonl", 2, 2),
		embedded(t, "heldout.jsonl", 3, 9)...)...), ""))
	wording := write(t, filepath.Join(folder, "wording"), `{{define "system"}}You write Python.{{end}}Now: {{.Statement}}`)
	dir = filepath.Join(folder, "run")
	_, errs, code := shell(t, "", append([]string{"--preset", "tiny_smoke", "--quiet", "threads=1", "run_dir=" + dir, "data=" + train,
		"test_data=" + held, "test_split=all", "prompt_template=" + wording, "max_steps=4", "prompts_per_step=2",
		"completions_per_prompt=4", "max_tokens=24", "eval_problems=8",
		"eval_samples=2", "eval_k=2", "eval_every=4", "save_every=1", "keep_last=2", "keep_best=0", "seed=5"}, words...)...)
	require.Zero(t, code, errs)
	return dir, train, held
}

// eval gives the run's own results on the same problems, even if the training data is gone.
func TestEvalFindsWhatTheRunFound(t *testing.T) {
	race.SkipCovered(t)
	dir, train, held := runOnOwnProblems(t)
	all, err := jsonl.OfKind[grpo.Evaluation](filepath.Join(dir, "metrics.jsonl"), "evaluation")
	require.NoError(t, err)
	last := all[len(all)-1]
	past, err := provenance.Read(dir)
	require.NoError(t, err)
	require.Len(t, past.Manifest.LeftOut, 2)

	require.NoError(t, os.Remove(train))
	r, attempts, _ := evaluate(t, "--run", dir)
	require.Equal(t, []any{4, 8, last.Greedy, last.GreedyCI}, []any{last.Step, r.Problems, r.Greedy.PassAt1, r.Greedy.CI})
	require.Equal(t, *last.Sampled, r.Sampled.Sampled)
	require.Equal(t, []any{0, 8}, []any{r.Change.Since, r.Change.Problems})
	judged, err := past.First(0)
	require.NoError(t, err)
	var ids []string
	for _, a := range attempts {
		require.NotContains(t, past.Manifest.LeftOut, a.Problem)
		if a.Temperature == 0 {
			ids = append(ids, a.Problem)
		}
	}
	require.Equal(t, judged.Problems, ids)
	first, _, _ := evaluate(t, "--run", dir, "--step", "3", "--problems", "0", "--samples", "0")
	require.Equal(t, 12, first.Problems)
	require.Contains(t, first.Checkpoint, "step_000003")

	others, _, _ := evaluate(t, "--run", dir, "--data", held, "--split", "train", "--samples", "0")
	require.Equal(t, 14, others.Problems, "a set named here is not compared with the run")
	require.Nil(t, others.Change)
}

// If a run has copies of its data, it is evaluated on them.
func TestEvalReadsWhatTheRunKeeps(t *testing.T) {
	race.SkipCovered(t)
	dir, train, held := runOnOwnProblems(t, "cache_dataset=true")
	require.NoError(t, os.Remove(train))
	require.NoError(t, os.Remove(held))
	elsewhere := filepath.Join(t.TempDir(), "moved")
	require.NoError(t, os.Rename(dir, elsewhere))
	r, _, _ := evaluate(t, "--run", elsewhere, "--samples", "0")
	require.Equal(t, 8, r.Problems)
}

// sample --run prompts as in training: the tokens of the prompt are those on record, and the run's settings apply unless overridden.
func TestSampleSpeaksAsTheRunDid(t *testing.T) {
	race.SkipCovered(t)
	dir, train, _ := runOnOwnProblems(t, `stop=["\n"]`)
	recorded, err := jsonl.OfKind[rollouts.Line](filepath.Join(dir, "rollouts.jsonl"), "")
	require.NoError(t, err)
	var task struct{ Prompt string }
	for _, line := range embedded(t, "train.jsonl", 0, 6) {
		if strings.Contains(line, `"`+recorded[0].Problem+`"`) {
			require.NoError(t, json.Unmarshal([]byte(line), &task))
		}
	}
	prompt, err := json.Marshal(tokenLine{recorded[0].Prompt})
	require.NoError(t, err)
	for step, named := range map[string]string{"3": "step_000003", "4": "step_000004"} {
		got, errs, code := shell(t, "", "sample", "--run", dir, "--step", step, "--prompt", task.Prompt, "--n", "3", "--json")
		require.Zero(t, code, errs)
		require.Contains(t, errs, named)
		want, errs, code := shell(t, string(prompt), "sample", "--model", "tiny",
			"--adapter", filepath.Join(dir, "checkpoints", named, "adapter"), "--tokens", "-", "--n", "3", "--json",
			"--max-tokens", "24", "--stop", "\n")
		require.Zero(t, code, errs)
		require.Equal(t, want, got)
	}
	latest, errs, code := shell(t, "", "sample", "--run", dir, "--prompt", task.Prompt, "--temperature", "0", "--max-tokens", "3", "--json")
	require.Zero(t, code, errs)
	require.LessOrEqual(t, len(sampled(t, latest)[0].Tokens), 3)

	half := write(t, filepath.Join(t.TempDir(), "half.jsonl"), `{"prompt":"p","answer":"1","match":"math"}`+"\n{}\n")
	several, errs, code := shell(t, "", "sample", "--run", dir, "--data", train, "--json")
	require.Zero(t, code, errs)
	require.Len(t, sampled(t, several), 6)
	for line, says := range map[string][]string{
		"sample --model tiny --data " + train:              {"--data", "--run DIR"},
		"sample --run " + dir + " --data " + half:          {"half.jsonl:2: no statement", "1 of 2 rows refused"},
		"sample --run /nowhere --prompt x":                 {"/nowhere", "not the directory of a run"},
		"sample --run " + dir + " --model tiny --prompt x": {"--model and --run do not go together"},
		"sample --run " + dir:                              {"--prompt", "exactly one"},
		"sample --prompt x":                                {"--run or --model is required", "type grpo sample --run DIRECTORY"},
		"sample --model tiny --step 3 --prompt x":          {"--step", "--run DIR"},
		"eval --step 3":                                    {"--step", "--run DIR"},
		"eval --run /nowhere":                              {"/nowhere", "not the directory of a run"},
	} {
		out, errs, code := shell(t, "", strings.Fields(line)...)
		requireBadInput(t, out, errs, code, says...)
	}
}

// A run without a chat format is sampled without one.
func TestSampleGoesOnWithATextAsTheRunDid(t *testing.T) {
	race.SkipCovered(t)
	dir, _, _ := runOnOwnProblems(t, "renderer=plain", "answer_match=exact")
	recorded, err := jsonl.OfKind[rollouts.Line](filepath.Join(dir, "rollouts.jsonl"), "")
	require.NoError(t, err)
	prompt, err := json.Marshal(tokenLine{recorded[0].Prompt})
	require.NoError(t, err)
	text, errs, code := shell(t, `{"ids":`+strings.TrimPrefix(string(prompt), `{"tokens":`), "tokenize", "--tokenizer", "tiny", "--decode")
	require.Zero(t, code, errs)
	var said struct{ Text string }
	require.NoError(t, json.Unmarshal([]byte(text), &said))
	statement := strings.TrimPrefix(said.Text, "You write Python.Now: ")
	require.NotEqual(t, said.Text, statement)
	got, errs, code := shell(t, "", "sample", "--run", dir, "--prompt", statement, "--json")
	require.Zero(t, code, errs)
	want, errs, code := shell(t, "", "sample", "--model", "tiny", "--adapter", filepath.Join(dir, "checkpoints", "step_000004", "adapter"),
		"--renderer", "plain", "--prompt", said.Text, "--max-tokens", "24", "--json")
	require.Zero(t, code, errs)
	require.Equal(t, want, got)
	got, errs, code = shell(t, "", "sample", "--run", dir, "--prompt", statement, "--json", "--renderer", "qwen3_instruct")
	require.Zero(t, code, errs)
	require.NotEqual(t, want, got, "a flag overrides the run's setting")
	questions := filepath.Join(t.TempDir(), "questions.jsonl")
	require.NoError(t, os.WriteFile(questions, []byte(`{"id":"q","prompt":"What is 1+1?","answer":"2"}`), 0o644))
	_, errs, code = shell(t, "", "sample", "--run", dir, "--data", questions)
	require.Zero(t, code, errs)
}

// A checkpoint that was removed is reported as such by every verb.
func TestPrunedCheckpointsAreNamed(t *testing.T) {
	race.SkipCovered(t)
	dir, _, _ := runOnOwnProblems(t)
	const pruned, never = "step 2 was pruned (keep_last=2, keep_best=0); there are 3, 4", "step 9 has no checkpoint; there are 3, 4"
	whole := filepath.Join(dir, "checkpoints", "step_000003")
	for line, says := range map[string]string{
		"eval --run " + dir + " --step 2":                                         pruned,
		"sample --prompt x --run " + dir + " --step 2":                            pruned,
		"sample --prompt x --run " + dir + " --step 9":                            never,
		"sample --prompt x --run " + filepath.Join(dir, "step_2"):                 pruned,
		"--dry-run resume=" + filepath.Join(dir, "step_2"):                        pruned,
		"--dry-run resume=" + filepath.Join(dir, "checkpoints", "step_000002"):    pruned,
		"--dry-run init_from=" + filepath.Join(dir, "checkpoints", "step_000009"): never,
		"--dry-run --preset tiny_smoke resume=" + filepath.Join(dir, "step_2"):    pruned,
		"--dry-run resume=" + filepath.Join(dir, "step_3"):                        "type " + whole,
		"sample --prompt x --step 3 --run " + whole:                               "a checkpoint already",
	} {
		out, errs, code := shell(t, "", strings.Fields(line)...)
		requireBadInput(t, out, errs, code, says)
	}
}

// narrowPositions is the embedded model with fewer positions, and the template that it was trained with.
func narrowPositions(t *testing.T, positions int) (dir string, wording string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "model")
	require.NoError(t, tiny.Extract(dir))
	rewrite(t, filepath.Join(dir, "config.json"), func(text []byte) []byte {
		var c map[string]any
		require.NoError(t, json.Unmarshal(text, &c))
		c["max_position_embeddings"] = positions
		text, err := json.Marshal(c)
		require.NoError(t, err)
		return text
	})
	return dir, "prompt_template=" + filepath.Join("..", "..", "internal", "tiny", "prompt.tmpl")
}

// If a prompt leaves fewer positions than max_tokens, the completion ends there, and is counted; a prompt that leaves none is left out,
// and counted.
func TestEvalHasOnlyThePositionsOfTheModel(t *testing.T) {
	needsSandbox(t)
	tasks(t)
	task := func(id, more string) string {
		return `{"id":"` + id + `","prompt":"Read an integer x. Print x plus 1.` + more + `","tests":[{"stdin":"2\n","stdout":"3\n"}]}` + "\n"
	}
	long := strings.Repeat(" The number x is an integer.", 20)
	file := write(t, filepath.Join(t.TempDir(), "t.jsonl"), task("a", "")+task("b", long)+task("c", " It is one line."))
	model, wording := narrowPositions(t, 80)
	args := []string{"--model", model, wording, "--data", file, "--split", "all", "--samples", "2"}
	out, errs, code := shell(t, "", append([]string{"eval", "--json"}, append(args, "--max-tokens", "1000")...)...)
	require.Zero(t, code, errs)
	var r outcome.Report
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.Equal(t, []int{2, 1, 2}, []int{r.Problems, r.NoRoom, r.LessRoom})
	require.Contains(t, errs, "1 problem of 3 is left out: the tokens of its prompt alone fill the model's 80 positions")
	require.Contains(t, errs, "2 problems of 3 leave room for fewer than max_tokens=1000 tokens")
	require.Less(t, r.Sampled.Tokens, 4*80)

	write(t, file, task("b", long))
	out, errs, code = shell(t, "", append([]string{"eval"}, args...)...)
	require.Equal(t, 2, code, errs)
	require.Empty(t, out)
	require.Contains(t, errs, "none of its problems (1) leaves room")
}

// An adapter that does not fit is refused before the model's weights are read.
func TestAdaptersAreCheckedFirst(t *testing.T) {
	needsSandbox(t)
	tasks(t)
	model, wording := narrowPositions(t, 2048)
	run := filepath.Join(t.TempDir(), "run")
	_, errs, code := shell(t, "", "--quiet", "--preset", "tiny_smoke", "threads=1", "run_dir="+run, "max_steps=1", "prompts_per_step=2",
		"lora_rank=4", "lora_alpha=8", "completions_per_prompt=2", "eval_every=-1")
	require.Zero(t, code, errs)
	adapter := filepath.Join(filepath.Dir(run), "adapter") // outside of its run it may be applied to any model that it fits
	require.NoError(t, os.CopyFS(adapter, os.DirFS(filepath.Join(run, "checkpoints", "step_000001", "adapter"))))
	foreign := golden("qwen3-tied", "adapter")
	weights := filepath.Join(model, "model.safetensors")
	require.NoError(t, os.WriteFile(weights, []byte("these are no weights"), 0o644))
	for line, says := range map[string][]string{
		"--dry-run --preset tiny_smoke model=" + model + " adapter=" + adapter: {
			"has rank 4, alpha 8", "the configuration says rank", "type lora_rank=4 lora_alpha=8 lora_targets=q_proj"},
		"--dry-run --preset tiny_smoke model=" + model + " adapter=" + foreign: {foreign},
		"eval --model " + model + " --adapter " + foreign:                      {"adapter_model.safetensors"},
		"sample --model " + model + " --prompt x --adapter " + foreign:         {"adapter_model.safetensors"},
		"eval --model " + model + " --adapter " + adapter + " " + wording:      {weights},
	} {
		out, errs, code := shell(t, "", strings.Fields(line)...)
		requireBadInput(t, out, errs, code, says...)
	}
}

// Without a home directory there is one warning, and everything works.
func TestWithoutAHome(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, name := range []string{"HOME", "XDG_CACHE_HOME", "HF_HOME"} {
		t.Setenv(name, "")
	}
	out, errs, code := shell(t, "", "sample", "--model", "tiny", "--prompt", "x", "--max-tokens", "2", "--json")
	require.Zero(t, code, errs)
	require.Len(t, sampled(t, out), 1)
	require.Equal(t, 1, strings.Count(errs, "!"), errs)
	require.Contains(t, errs, "takes its place, set XDG_CACHE_HOME to a folder that lasts")
}
