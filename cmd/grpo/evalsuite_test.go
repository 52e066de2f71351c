package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/cmd/grpo/suites"
)

func excerpt(name string) string {
	return filepath.Join("..", "..", "data", "suite", "testdata", name+".jsonl")
}

// askedSuite evaluates on a suite, and returns the card.
func askedSuite(t *testing.T, name string, args ...string) (card suites.Card, out string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "card.json")
	args = append([]string{"eval", "--suite", name, "--data", excerpt(name), "--card", path, "--max-tokens", "8"}, args...)
	out, errs, code := shell(t, "", args...)
	require.Zero(t, code, errs)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &card))
	return card, out
}

// The card of an evaluation says what was evaluated and how; a second evaluation gives the same card.
func TestSuites(t *testing.T) {
	needsSandbox(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	args := []string{"--from", "2024-08-01", "--to", "2025-02-01", "--samples", "2", "--against", "tiny", "threads=1"}
	card, out := askedSuite(t, "livecodebench", args...)
	require.Contains(t, out, "tiny on 2 problems of LiveCodeBench, code generation, 2024-08-01 to 2025-02-01, seed 0")
	require.Contains(t, out, "contamination: 0 problems are among the")
	require.Equal(t, []any{2, 2, 2, 0.2, 0.95, "chat", "2024-08-01"},
		[]any{card.Problems, card.Samples, card.K, card.Temperature, card.TopP, card.Style, card.From})
	require.Len(t, card.Groups, 4)
	require.Len(t, card.PassAt, 2)
	require.Contains(t, card.FirstPrompt, "Two jars hold")
	require.Regexp(t, "^[0-9a-f]{64}$", card.ModelSHA256)
	require.Equal(t, []string{"2 samples, 10 in the suite", "8 tokens at most, 2000 in the suite"}, card.Deviations)
	again, _ := askedSuite(t, "livecodebench", args...)
	require.Equal(t, card, again)

	card, out = askedSuite(t, "mbpp", "--style", "completion", "--shots", "0", "--problems", "1", "threads=1")
	require.Contains(t, out, "contamination: not searched")
	require.Equal(t, []any{1, 0, "plain", 0}, []any{card.Problems, card.Samples, card.Renderer, card.Shots})
	require.Equal(t, "Task: Write a function to remove the last letter x of a string {{as is}}.\nThe code has to pass these tests:\n"+
		"assert drop_last(\"hello\",\"l\") == \"helo\"\nassert drop_last(\"abc\",\"x\") == \"abc\"\n"+
		"assert drop_last(\"\",\"x\") == \"\"\n[BEGIN]\n", card.FirstPrompt)
}

// With a run, its training data is checked for overlap; the suite's problems are evaluated, not the run's.
func TestASuiteOfARun(t *testing.T) {
	needsSandbox(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	run := filepath.Join(t.TempDir(), "run")
	data := filepath.Join(t.TempDir(), "train.jsonl")
	write(t, data, `{"prompt":"A road of 3 km gets a lamp every 2 metres. How many lamps are that?","answer":"1500","match":"math"}`)
	_, errs, code := shell(t, "", "--quiet", "threads=1", "run_dir="+run, "data="+data, "max_steps=1", "eval_every=-1", "prompts_per_step=1",
		"completions_per_prompt=2", "max_tokens=4", "lora_rank=1")
	require.Zero(t, code, errs)
	card, out := askedSuite(t, "gsm8k", "--run", run)
	require.Contains(t, out, "contamination: 1 problem is among the 1 of "+data+", and 0 nearly (gsm8k/2 is 100 % of")
	require.Equal(t, []any{1, "gsm8k/2", run, 1}, []any{card.Contamination.Same, card.Contamination.Worst[0].Problem, card.Run, *card.Step})
	require.Regexp(t, "^[0-9a-f]{64}$", card.AdapterSHA)
	require.NoError(t, os.Remove(data))
	card, _ = askedSuite(t, "gsm8k", "--run", run, "--problems", "1")
	require.NotEmpty(t, card.Contamination.Against[0].Failed)
}

func TestMistakesAboutSuites(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--suite", "humanevil"}, "--suite: no suite \"humanevil\"; type one of livecodebench, humaneval"},
		{[]string{"--from", "2024-08-01"}, "--from needs a suite; type --suite livecodebench|"},
		{[]string{"--suite", "livecodebench", "--from", "August"}, `--from: found "August", expected a day such as 2024-08-01`},
		{[]string{"--suite", "gsm8k", "--from", "2024-08-01"}, "have no dates"},
		{[]string{"--suite", "gsm8k", "env=heal"}, "env: --suite prompts in one turn, and judges by its own tests; leave it out"},
		{[]string{"--suite", "gsm8k", "reward_file=r.py"}, "reward_file: --suite prompts in one turn"},
		{[]string{"--suite", "gsm8k", "--split", "train"}, "--split: gsm8k prescribes its own part"},
		{[]string{"--suite", "gsm8k", "--card", "card.txt"}, "a name that ends in .md or .json"},
		{[]string{"--suite", "gsm8k", "--data", "no/such/file.jsonl"}, "no such file"},
		{[]string{"--suite", "gsm8k", "--data", excerpt("mbpp")}, `"question": found nothing, expected text`},
		{[]string{"--suite", "gsm8k", "--data", excerpt("gsm8k"), "--style", "completion"}, "--shots 8: "},
		{[]string{"--suite", "livecodebench", "--data", excerpt("livecodebench"), "--oracle"}, "has no solutions"},
		{[]string{"--suite", "humaneval", "--oracle", "--card", "card.md"}, "--card and --oracle do not go together"},
		// Missing files are reported before a suite is downloaded.
		{[]string{"--suite", "livecodebench", "--data", "no/such/file.jsonl", "--oracle"}, "--oracle: LiveCodeBench, code generation has no"},
		{[]string{"--suite", "gsm8k", "--data", "no/such/file.jsonl", "--run", "no/run"}, "no/run is not the directory of a run"},
		{[]string{"--suite", "gsm8k", "--data", "no/such/file.jsonl", "--model", "no-model"}, `model "no-model": no such directory`},
		{[]string{"--suite", "gsm8k", "--data", "no/such/file.jsonl", "--adapter", "no-adapter"}, "no-adapter"},
		{[]string{"--suite", "gsm8k", "--data", "no/such/file.jsonl", "--against", "no-set"}, "--against: data no-set: no such file"},
		{[]string{"--suite", "gsm8k", "--data", "no/such/file.jsonl", "--against", excerpt("solutions")}, "solutions.jsonl: no row"},
	} {
		_, errs, code := shell(t, "", append([]string{"eval"}, c.args...)...)
		require.Equal(t, exitBadInput, code, "%v: %s", c.args, errs)
		require.Contains(t, errs, c.says)
	}
}
