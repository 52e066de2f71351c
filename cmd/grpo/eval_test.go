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
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/tiny"
)

// evaluate runs the verb, and returns its report and its line for each completion.
func evaluate(t *testing.T, args ...string) (r outcome.Report, lines []outcome.Line, text string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out.jsonl")
	out, errs, code := shell(t, "", append([]string{"eval", "--json", "--out", path}, args...)...)
	require.Zero(t, code, errs)
	require.Empty(t, errs)
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	for line := range strings.Lines(string(written)) {
		var l outcome.Line
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		lines = append(lines, l)
	}
	return r, lines, string(written)
}

// The report follows from the lines, and the lines from the seed.
func TestEval(t *testing.T) {
	race.SkipCovered(t)
	needsSandbox(t)
	args := []string{"--problems", "6", "--samples", "3", "--k", "2", "--seed", "5"}
	r, lines, text := evaluate(t, args...)
	require.Len(t, lines, 6*4)
	_, held, err := tiny.Problems()
	require.NoError(t, err)
	right, correct, tokens, verdicts := 0.0, make([]float64, 6), [2]int{}, [2]map[string]int{{}, {}}
	for i, l := range lines {
		require.Equal(t, held[i/4].ID, l.Problem)
		require.Equal(t, max(i%4-1, 0), l.Sample)
		require.Equal(t, float64(min(i%4, 1)), l.Temperature)
		kind := min(i%4, 1)
		verdict := string(l.Verdict)
		if verdict == "" {
			verdict = outcome.NotRun
		}
		verdicts[kind][verdict]++
		tokens[kind] += l.Tokens
		if l.Verdict == "AC" {
			require.Equal(t, 1.0, *l.Score)
			require.Equal(t, l.Total, l.Passed)
			if kind == 0 {
				right++
			} else {
				correct[i/4]++
			}
		}
	}
	require.InDelta(t, right/6, r.Greedy.PassAt1, 1e-12)
	require.True(t, r.Greedy.CI[0] <= r.Greedy.PassAt1 && r.Greedy.PassAt1 <= r.Greedy.CI[1])
	require.Equal(t, verdicts[0], r.Greedy.Verdicts)
	require.Equal(t, verdicts[1], r.Sampled.Verdicts)
	require.Equal(t, tokens, [2]int{r.Greedy.Tokens, r.Sampled.Tokens})
	require.Positive(t, r.Greedy.TokensPerSec)
	passAt1, passAt2 := 0.0, 0.0
	for _, c := range correct {
		passAt1 += c / 3 / 6
		passAt2 += (1 - (3-c)*(2-c)/6) / 6 // both samples are among the wrong ones
	}
	require.Positive(t, passAt1)
	require.InDelta(t, passAt1, r.Sampled.PassAt1, 1e-12)
	require.InDelta(t, passAt2, float64(r.Sampled.PassAtK), 1e-12)

	again, _, sameText := evaluate(t, append(args, "threads=1", "max_sequences=3")...)
	require.Equal(t, text, sameText)
	require.Equal(t, r.Sampled.BestOfK, again.Sampled.BestOfK)
	_, _, otherText := evaluate(t, append(args, "--seed", "6")...)
	require.NotEqual(t, text, otherText)
}

func TestEvalPrintsATable(t *testing.T) {
	needsSandbox(t)
	out, errs, code := shell(t, "", "eval", "--problems", "3", "--samples", "2")
	require.Zero(t, code, errs)
	for _, want := range []string{"tiny on 3 problems of tiny", "greedy", "2 samples at temperature 1", "pass@1", "pass@2",
		"best reward of 2", "has a program", "verdicts", "tokens/s"} {
		require.Contains(t, out, want)
	}
	out, errs, code = shell(t, "", "eval", "--problems", "3", "--samples", "0")
	require.Zero(t, code, errs)
	require.NotContains(t, out, "temperature")
}

// An adapter of any rank changes the model's output; an untrained one does not.
func TestEvalOfAnAdapterAndAFileOfTasks(t *testing.T) {
	race.SkipCovered(t)
	needsSandbox(t)
	run := filepath.Join(t.TempDir(), "run")
	_, errs, code := shell(t, "", "--quiet", "threads=1", "run_dir="+run, "max_steps=1", "eval_every=-1", "prompts_per_step=2",
		"lora_rank=4", "lora_alpha=8", "learning_rate=0.05")
	require.Zero(t, code, errs)
	tasks := filepath.Join(t.TempDir(), "tasks.jsonl")
	write(t, tasks, `{"prompt":"Read an integer x. Print x plus 1.","tests":[{"stdin":"2\n","stdout":"3\n"}]}`)
	base, lines, _ := evaluate(t, "--data", tasks, "--samples", "0", "--max-tokens", "24", "threads=1")
	require.Equal(t, 1, base.Problems)
	require.Equal(t, 1, lines[0].Total)
	require.Nil(t, base.Sampled)
	args := []string{"--problems", "12", "--samples", "0", "--max-tokens", "48", "threads=1"}
	_, _, plain := evaluate(t, args...)
	trained, _, text := evaluate(t, append(args, "--adapter", filepath.Join(run, "checkpoints", "step_000001", "adapter"))...)
	require.NotEqual(t, plain, text)
	require.Equal(t, 48, trained.MaxTokens)
}

// An evaluation may use another max_tokens than the run, even if the run's other settings do not fit it.
func TestEvalWithOtherLengthsThanTheRun(t *testing.T) {
	cfg := configs.Defaults()
	cfg.OverlongPenalty, cfg.OverlongBuffer, cfg.MaxTokens = 0.5, 20, 96
	f := evalFlags{recorded: "run", maxToks: 8, samples: 1, k: 1, temperature: 1}
	f.setProblems(&cfg)
	require.NoError(t, cfg.Validate())
	cfg.OverlongPenalty, cfg.OverlongBuffer, cfg.Env, cfg.MaxConversationTokens = 0, 0, "heal", 96
	f.maxToks = 200
	f.setProblems(&cfg)
	require.NoError(t, cfg.Validate())
}

func TestEvalRefuses(t *testing.T) {
	needsSandbox(t)
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.jsonl")
	require.NoError(t, os.WriteFile(empty, nil, 0o644))
	split := filepath.Join(dir, "set")
	require.NoError(t, os.Mkdir(split, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(split, "train.jsonl"), []byte(taskLines), 0o644))
	for line, says := range map[string][]string{
		"--model /nowhere":               {`model "/nowhere"`, "no such directory", "owner/name"},
		"--model " + dir:                 {"config.json"},
		"run=runs/a":                     {"run is a flag here; type --run runs/a"},
		"run_dir=runs/a":                 {"run_dir is a flag here; type --run runs/a"},
		"--data /nowhere.jsonl":          {"--data /nowhere.jsonl: no such file"},
		"--data " + empty:                {"empty.jsonl", "no rows"},
		"--data " + split:                {`no split "test"`, "train"},
		"--data tiny --split tst":        {"--split: no split \"tst\"", "validation"},
		"--split train":                  {"--split train", "type --data"},
		"--data tiny --split all":        {"--split all", "held-out problems", "leave --split out"},
		"--k 5":                          {"--k: found 5", "--samples, which is 4"},
		"--samples -1":                   {"--samples: found -1"},
		"--samples 1000000 --problems 0": {"--samples: found 1000000 of each of 210 problems", "type --samples 19972"},
		"--temperature 0":                {"--temperature: found 0", "above 0"},
		"--adapter /nowhere":             {"/nowhere", "PEFT adapter"},
		"--out /nowhere/x.jsonl":         {"--out", "no folder /nowhere"},
		"eval_k=2":                       {"eval_k", "type --k 2"},
		"threds=2":                       {"threds", "threads"},
		"nonsense":                       {"nonsense", "key=value"},
		"--adapter " + golden("qwen3-tied", "adapter"): {"adapter_model.safetensors"},
	} {
		out, errs, code := shell(t, "", append([]string{"eval", "--problems", "2"}, strings.Fields(line)...)...)
		requireBadInput(t, out, errs, code, says...)
	}
}

// A setting that has a flag is refused as key=value.
func TestEvalCoversItsSettings(t *testing.T) {
	known := configs.Defaults()
	for key, flag := range flagOfSetting {
		if key != "run" {
			require.Contains(t, string(known.Marshal()), "\n"+key+":", key)
		}
		require.NotNil(t, newEvalCmd().Flags().Lookup(strings.TrimPrefix(flag, "--")), flag)
	}
}

// A setting that an evaluation does not read is refused, and so is one that has a flag; all others are accepted.
func TestEvalTakesWhatItReads(t *testing.T) {
	const useless = " is for training, and grpo eval does not use it; leave it out"
	for word, says := range map[string]string{
		"temperature=0.01": "temperature is a flag here; type --temperature 0.01", "eval_temperature=0.1": "type --temperature 0.1",
		"max_prompt_chars=10": useless, "min_prompt_chars=10": useless, "truncate_prompts=true": useless, "min_problem_tests=1": useless,
		"max_problem_tests=1": useless, "data_sources=a": useless, "difficulty_patience=3": useless, "cache_dataset=true": useless,
		"learning_rate=3": useless, "lora_rank=3": useless, "train=full": useless, "loss=ppo": useless, "reward_clip=1": useless,
		"overlong_penalty=1": useless, "max_steps=3": useless, "prompts_per_step=3": useless, "group_size=3": useless,
		"completions_per_prompt=3": useless, "batch_size=3": useless, "eval_every=3": useless, "serve=127.0.0.1:0": useless,
		"watch=127.0.0.1:0": useless, "autopilot=true": useless, "recompute=blocks": useless,
		"method=sft": useless, "epochs=1": useless, "tensorboard=true": useless, "version=1": useless,
	} {
		out, errs, code := shell(t, "", "eval", word)
		requireBadInput(t, out, errs, code, says)
	}
	const judged = " judge_model=m reward=weights reward_weights=judge=1 deterministic=false"
	taken := map[string]string{"precision": "bf16", "order": "serial", "kv_cache_dtype": "bf16", "adapter_precision": "bf16",
		"quantize": "nf4", "answer_match": "exact", "prompt_template": "t", "renderer": "plain", "chat_date": "2025-01-01", "chat_vars": "{}",
		"blocklist": "b", "reject_blocklisted": "true blocklist=b", "stop": "a,b", "env": "heal", "max_turns": "3 env=tools",
		"max_conversation_tokens": "9000 env=heal", "turn_seconds": "3 env=tools", "conversation_seconds": "60 env=heal deterministic=false",
		"turn_reward": "best env=heal", "turn_discount": "0.4 turn_reward=discounted env=heal", "public_tests": "2 env=heal",
		"heal_template": "t env=heal", "tools": "trace env=tools", "mcp": "m env=tools", "openenv_action": "a env=openenv:http://x",
		"openenv_template": "t env=openenv:http://x", "openenv_reward": "best env=openenv:http://x", "reward": "fraction",
		"reward_weights": "correct=1 reward=weights", "format_coef": "0.2", "reward_file": "f reward=custom",
		"reward_python": "p reward=custom reward_file=f", "judge_url": "http://x" + judged,
		"reward_timeout": "3", "max_tests": "3", "on_truncated": "mask", "comparator": "tolerant", "tolerance": "0.1 comparator=tolerant",
		"sandbox": "unsafe", "sandbox_slots": "2", "sandbox_url": "http://x", "python": "p", "infra_threshold": "20", "deterministic": "true",
		"eval_top_k": "5", "eval_top_p": "0.9", "eval_min_p": "0.1", "threads": "1", "pipeline": "off", "cache_memory": "8MiB",
		"max_sequences": "3", "token_budget": "64", "max_rows": "64", "speculate": "false"}
	for _, key := range []string{"judge_model", "judge_prompt", "judge_score", "judge_budget", "judge_slots", "judge_timeout"} {
		value := map[bool]string{true: "m", false: "3 judge_model=m"}[key == "judge_model"]
		taken[key] = value + " judge_url=http://x" + strings.TrimPrefix(judged, " judge_model=m")
	}
	for _, setting := range configs.Describe() {
		value, reads := taken[setting.Key]
		_, flag := flagOfSetting[setting.Key]
		words := strings.Fields(setting.Key + "=" + value)
		err := configs.CheckEvaluation(words, flagOfSetting)
		require.Equal(t, reads, err == nil, setting.Key)
		if require.False(t, reads && flag, setting.Key); !reads {
			continue
		}
		f := &evalFlags{model: configs.DefaultPreset, device: "cpu", split: "test", samples: 4, temperature: 1}
		_, err = f.config(words)
		require.NoError(t, err, words)
	}
}

// Evaluating a run gives the results of its own evaluation: the same settings, problems and draws.
func TestEvalOfARun(t *testing.T) {
	race.SkipCovered(t)
	needsSandbox(t)
	dir := filepath.Join(t.TempDir(), "run")
	_, errs, code := shell(t, "", "--preset", "tiny_smoke", "--quiet", "threads=1", "run_dir="+dir, "max_steps=2", "prompts_per_step=2",
		"completions_per_prompt=4", "eval_problems=8", "eval_samples=2", "eval_k=2", "save_every=1", "seed=3")
	require.Zero(t, code, errs)
	text, err := os.ReadFile(filepath.Join(dir, "metrics.jsonl"))
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	var last grpo.Evaluation
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &last))
	require.Equal(t, 2, last.Step)
	r, _, _ := evaluate(t, "--run", dir, "--problems", "8", "--samples", "2", "--seed", "3")
	require.Equal(t, last.Greedy, r.Greedy.PassAt1)
	require.Equal(t, last.GreedyCI, r.Greedy.CI)
	require.Equal(t, last.PassAtK, r.Sampled.PassAtK)
	require.Equal(t, "tiny", r.Model)
	require.Equal(t, "tiny", r.Data)
	earlier := filepath.Join(dir, "checkpoints", "step_000001")
	first, _, _ := evaluate(t, "--run", earlier, "--problems", "8", "--samples", "0", "--seed", "3", "--data", "tiny")
	require.Equal(t, 8, first.Problems)
	out, errs, code := shell(t, "", "eval", "--run", dir, "--k", "3")
	requireBadInput(t, out, errs, code, "--k: found 3, expected at most --samples, which is 2")
	out, errs, code = shell(t, "", "eval", "--run", dir, "threads=1")
	requireBadInput(t, out, errs, code, "with --run the settings are the run's", "leave out --run and type --adapter DIR")
	out, errs, code = shell(t, "", "sweep-checkpoints", dir, "--data", "none.jsonl")
	requireBadInput(t, out, errs, code, "step 1: --data none.jsonl: no such file")
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "checkpoints")))
	out, errs, code = shell(t, "", "eval", "--run", dir)
	requireBadInput(t, out, errs, code, "run "+dir+": no checkpoint to resume from; expected the directory of a run that has one")
}

// A warm-up has no problems: the error says how to evaluate its policy on some.
func TestEvalOfAWarmUp(t *testing.T) {
	rows, dir := filepath.Join(t.TempDir(), "rows.jsonl"), filepath.Join(t.TempDir(), "warm")
	require.NoError(t, os.WriteFile(rows, []byte(`{"prompt":"Say 1","completion":"1."}`+"\n"), 0o644))
	_, errs, code := shell(t, "", "sft", "--quiet", "data="+rows, "held_out=0", "run_dir="+dir)
	require.Zero(t, code, errs)
	adapter := filepath.Join(dir, "checkpoints", "step_000001", "adapter")
	for _, words := range [][]string{{"eval", "--run", dir}, {"eval", "--run", dir, "--data", "tiny"}, {"sweep-checkpoints", dir}} {
		out, errs, code := shell(t, "", words...)
		requireBadInput(t, out, errs, code,
			dir+" is a run of grpo sft, which has no problems; type grpo eval --model tiny --adapter "+adapter)
	}
}
