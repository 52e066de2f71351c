package configs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// write makes a file called c.yaml and goes where it is, so that messages are short.
func write(t *testing.T, text string) {
	t.Helper()
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("c.yaml", []byte(text), 0o644))
}

func TestLayers(t *testing.T) {
	write(t,
		"version: 1\nextends: tiny_smoke\nlora_rank: 4 # small\nstop: [\"a,b\", '#']\ndata_sources:\n  - x\n  - y\ncache_memory: 1.5GiB\n")
	c, err := Load(Source{File: "c.yaml",
		Overrides: []string{"learning_rate=1e-3", "lora_targets=q_proj,v_proj", "seed=18446744073709551615"}})
	require.NoError(t, err)
	want := Defaults()
	require.Equal(t, want.Temperature, c.Temperature)             // of the defaults
	require.Equal(t, "tiny", c.Model)                             // of the preset below the preset
	require.Equal(t, 15, c.MaxSteps)                              // of the preset
	require.Equal(t, 4, c.LoRARank)                               // of the file
	require.Equal(t, 1e-3, c.LearningRate)                        // of the words
	require.Equal(t, []string{"q_proj", "v_proj"}, c.LoRATargets) //
	require.Equal(t, []string{"a,b", "#"}, c.Stop)
	require.Equal(t, []string{"x", "y"}, c.DataSources)
	require.Equal(t, Bytes(3<<29), c.CacheMemory)
	require.Equal(t, uint64(1<<64-1), c.Seed)

	beside, err := Load(Source{File: "c.yaml", Preset: "tiny_smoke"})
	require.NoError(t, err)
	require.Equal(t, 4, beside.LoRARank)

	write(t, "version: 1\nlora_rank: 4\n")
	below, err := Load(Source{File: "c.yaml", Preset: "tiny"})
	require.NoError(t, err)
	require.Equal(t, 4, below.LoRARank)
	require.Equal(t, "tiny", below.Model)
}

// What Marshal writes, and what JSON writes, loads as the same value, without any preset.
func TestRoundTrip(t *testing.T) {
	sources := []Source{
		{Overrides: []string{"train=full", "loss=cispo", "reward=weights", "reward_weights=correct=1,format=0.1", "refill=true",
			"comparator=tolerant"}},
		{Overrides: []string{`stop=["<end>", "a, b", "\"q\" \\ '", "new\nline", "  ", "é 漢 🙂", "null", "~", "-", "0x10", "# no", "k: ` +
			`v", "\t"]`, "data_sources="}},
		{Overrides: []string{"eval_every=-1", "cache_memory=8GiB", "data=~/a b.jsonl", "run_dir=-x", "python=null", "adam_eps=1e-08",
			"learning_rate=123456789.125"}},
	}
	for _, name := range Presets() {
		sources = append(sources, Source{Preset: name})
	}
	for _, s := range sources {
		c, err := Load(s)
		require.NoError(t, err, "%v", s)
		write(t, string(c.Marshal()))
		again, err := Load(Source{File: "c.yaml"})
		require.NoError(t, err, "%s", c.Marshal())
		require.Equal(t, c, again)

		text, err := json.MarshalIndent(c, "", "  ")
		require.NoError(t, err)
		write(t, string(text))
		again, err = Load(Source{File: "c.yaml"})
		require.NoError(t, err, "%s", text)
		require.Equal(t, c, again)
		require.Empty(t, Changed(c, again))
	}
}

// The written file explains itself, in lines that fit a screen.
func TestMarshal(t *testing.T) {
	d := Defaults()
	text := string(d.Marshal())
	require.True(t, strings.HasPrefix(text, "# The version of this format.\nversion: 1\n\n# ── Model\n\n# A Hugging Face"), text)
	require.Contains(t, text, "\nlearning_rate: 4e-5\n")
	require.Contains(t, text, "\nadapter: \"\"\n")
	for line := range strings.Lines(text) {
		require.LessOrEqual(t, len(line), lineWidth+4)
	}
}

func TestChanged(t *testing.T) {
	before, after := Defaults(), Defaults()
	after.LearningRate, after.Stop, after.RunDir = 1e-4, []string{"x y"}, "a"
	require.Equal(t, []string{`stop: [] → ["x y"]`, "learning_rate: 4e-5 → 1e-4", `run_dir: "" → a`}, Changed(&before, &after))
}

// Each faulty file gets one line that says where, what and what instead.
func TestFaultyFiles(t *testing.T) {
	const head = "version: 1\nextends: tiny\n"
	for _, c := range []struct{ text, message string }{
		{"", "c.yaml: the version of its format is missing; write version: 1 at the top"},
		{"# nothing\n", "c.yaml: the version of its format is missing; write version: 1 at the top"},
		{"version: 2\nwhat: 3\n", `c.yaml:1: version: found "2", expected 1, the format that this program reads`},
		{"version: [1]\n", `c.yaml:1: version: found "", expected 1, the format that this program reads`},
		{"version: 1\nextends: tinny\n",
			`preset "tinny" is not known; expected 4090_qwen3, defaults, qwen3_0.6b, qwen3_4b_h100, tiny or tiny_smoke; ` +
				`a file of your own is --config-file FILE`},
		{"version: 1\nextends: ''\n", `c.yaml:2: extends: expected 4090_qwen3, defaults, qwen3_0.6b, qwen3_4b_h100, tiny or tiny_smoke`},
		{head + "lerning_rate: 1\n", "c.yaml:3: lerning_rate: this key is not known; did you mean learning_rate?"},
		{head + "abcdefghijklmnopqrstuvwxyz: 1\n",
			"c.yaml:3: abcdefghijklmnopqrstuvwxyz: this key is not known; 'grpo --print-config' lists all"},
		{head + "max_steps: many\n", `c.yaml:3: max_steps: found "many", expected a whole number`},
		{head + "max_steps: 1.5\n", `c.yaml:3: max_steps: found "1.5", expected a whole number`},
		{head + "max_steps:\n", `c.yaml:3: max_steps: found nothing, expected a value; write "" for none`},
		{head + "max_steps: [1]\n", `c.yaml:3: max_steps: found a list, expected a whole number`},
		{head + "data: [x]\n", `c.yaml:3: data: found a list, expected text`},
		{head + "stop: x\n", `c.yaml:3: stop: found "x", expected a list, as in [a, b]`},
		{head + "stop: [x, [y]]\n", `c.yaml:3: stop: found sequence, expected a plain value`},
		{head + "stop: [x, ]\nstop: [y]\n", `c.yaml:4: mapping key "stop" already defined at [3:1]`},
		{head + "data: {a: b}\n", `c.yaml:3: data: found mapping, expected a plain value`},
		{head + "data: &a x\n", `c.yaml:3: data: found anchor, expected a plain value`},
		{head + "seed: -1\n", `c.yaml:3: seed: found "-1", expected a whole number of at least 0`},
		{head + "refill: yes\n", `c.yaml:3: refill: found "yes", expected true or false`},
		{head + "cache_memory: 8GB\n", `c.yaml:3: cache_memory: found "8GB", expected an amount of memory such as 8GiB`},
		{head + "eval_every: 0\n", `c.yaml:3: eval_every: found 0, expected 1 or more; type eval_every=-1 to switch evaluation off`},
		{head + "batch_size: 100\n",
			`c.yaml:3: batch_size=100: so many completions do not divide among 8 prompts (group_size); type batch_size=96 or 104`},
		{head + "learning_rate: .nan\n", `c.yaml:3: learning_rate: found ".nan", expected a number`},
		{"- version: 1\n", "c.yaml:1: found sequence, expected lines of key: value"},
		{"version: 1\n---\nversion: 1\n", "c.yaml: found 2 documents, expected one"},
		{head + "stop: [a\n", "c.yaml:3: sequence end token ']' not found"},
		{head + "data: \"a\n", "c.yaml:3: could not find end character of double-quoted text"},
		{head + "data: \xff\n", "c.yaml: found bytes that are not UTF-8"},
		{head + strings.Repeat("#", maxFile), "c.yaml: found 65561 bytes, expected a configuration of at most 65536"},
		{head + "max_stepz: 1\nlearning_rate: x\n",
			"c.yaml:3: max_stepz: this key is not known; did you mean max_steps?\nc.yaml:4: learning_rate: found \"x\", expected a number"},
	} {
		write(t, c.text)
		_, err := Load(Source{File: "c.yaml"})
		require.EqualError(t, err, c.message)
		require.True(t, badinput.Is(err))
	}
	write(t, head)
	_, err := Load(Source{File: "c.yaml", Preset: "defaults"})
	require.EqualError(t, err, "c.yaml says extends: tiny, the command line --preset defaults; give one of them")
	_, err = Load(Source{File: filepath.Join("no", "c.yaml")})
	require.EqualError(t, err, "config file: open no/c.yaml: no such file or directory")
	require.True(t, badinput.Is(err))
}

// A file without a preset names everything; the error lists what it does not.
func TestCompleteFile(t *testing.T) {
	d := Defaults()
	whole := string(d.Marshal())
	write(t, strings.NewReplacer("\nmax_tokens: 24576\n", "\n", "\nseed: 0\n", "\n").Replace(whole))
	_, err := Load(Source{File: "c.yaml"})
	require.EqualError(t, err,
		"c.yaml: names no max_tokens, seed; add them, or write extends: defaults (or another preset) to take them from there")

	write(t, strings.NewReplacer("prompts_per_step: 8", "group_size: 4", "completions_per_prompt: 16", "batch_size: 64").Replace(whole))
	c, err := Load(Source{File: "c.yaml"})
	require.NoError(t, err)
	require.Equal(t, "4 prompts × 16 completions", c.Batch())
}

func TestBatch(t *testing.T) {
	for _, c := range []struct{ words, want string }{
		{"", "8 prompts × 16 completions"},
		{"batch_size=128 group_size=8", "8 prompts × 16 completions"},
		{"group_size=4 batch_size=64", "4 prompts × 16 completions"},
		{"group_size=16", "16 prompts × 8 completions"},
		{"batch_size=64", "8 prompts × 8 completions"},
		{"prompts_per_step=1", "1 prompt × 16 completions"},
		{"completions_per_prompt=4", "8 prompts × 4 completions"},
		{"prompts_per_step=4 batch_size=8", "4 prompts × 2 completions"},
		{"completions_per_prompt=4 batch_size=8", "2 prompts × 4 completions"},
		{"group_size=2 completions_per_prompt=4", "2 prompts × 4 completions"},
		{"group_size=2 prompts_per_step=2", "2 prompts × 16 completions"},
		{"group_size=2 prompts_per_step=2 completions_per_prompt=3 batch_size=6", "2 prompts × 3 completions"},

		{"batch_size=100", "batch_size=100: so many completions do not divide among 8 prompts (group_size); type batch_size=96 or 104"},
		{"batch_size=4", "batch_size=4: so many completions do not divide among 8 prompts (group_size); type batch_size=8"},
		{"group_size=24", "batch_size=128: so many completions do not divide among 24 prompts (group_size); type batch_size=120 or 144"},
		{"batch_size=9 completions_per_prompt=4",
			"batch_size=9: so many completions do not divide among prompts of 4 completions; type batch_size=8 or 12"},
		{"group_size=8 prompts_per_step=4", "prompts_per_step=4 and group_size=8 both count the problems of a step; keep one"},
		{"batch_size=128 prompts_per_step=8 completions_per_prompt=8",
			"batch_size=128 contradicts 8 problems with 8 completions each, which make 64; leave batch_size out"},
		{"batch_size=0", "batch_size: found 0, expected 1 to 1048576"},
		{"group_size=x", `group_size: found "x", expected a whole number`},
		{"completions_per_prompt=1",
			"completions_per_prompt: found 1, expected 2 or more: a completion is compared with others of its prompt; " +
				"type completions_per_prompt=16"},
	} {
		got, err := Load(Source{Overrides: strings.Fields(c.words)})
		if err != nil {
			require.EqualError(t, err, c.want, c.words)
			continue
		}
		require.Equal(t, c.want, got.Batch(), c.words)
	}
}

// Each contradiction and each value out of range gets one line with what to type.
func TestMistakes(t *testing.T) {
	for _, c := range []struct{ words, message string }{
		{"model", `"model": expected key=value`},
		{"seed=1 seed=1", "seed: it is there twice; keep one"},
		{"extends=tiny", "extends: it stands in a file; on the command line type --preset NAME"},
		{"quiet=true", "quiet: it is a flag; type --quiet"},
		{"top_p=0.9",
			"top_p: training samples from the whole distribution, " +
				"because the probabilities of a truncated one are not the model's and would bias the importance ratio; " +
				"leave it out, or evaluate with eval_top_p"},
		{"stop=[a", `stop: found "[a", expected a list, as in a,b or ["a", "b"]`},
		{"stop=a,a", "stop: a is there twice; keep one"},
		{"stop=a,", "stop: found an empty text in the list; leave it out"},
		{"version=2", "version: found 2, expected 1, the format that this program reads"},
		{"model=", "model: found nothing; type model=DIR, model=owner/name or model=tiny"},
		{"data=",
			"data: found nothing; type data=FILE, data=owner/name or data=tiny|eval_every: there is no test_data to evaluate on; " +
				"type test_data=FILE, or eval_every=-1"},
		{"data=x.jsonl", "eval_every: there is no test_data to evaluate on; type test_data=FILE, or eval_every=-1"},
		{"test_split=train",
			"test_data: these are the problems that are trained on; type test_split=test, or test_data= and eval_every=-1"},
		{"init_from=a adapter=b", "adapter: init_from=a brings its own; leave one of them out"},
		{"init_from=a resume=b", "init_from: resume=b names another checkpoint to go on from; leave one of them out"},
		{"train=both", `train: found "both", expected lora or full`},
		{"train=full lora_rank=8", "lora_rank: train=full has no adapter; leave it out, or type train=lora"},
		{"train=full precision=bf16",
			"precision: bf16 is for frozen weights, and with train=full they are trained in f32; type precision=f32"},
		{"train=full adapter=a", "adapter: train=full has no adapter; leave it out, or type train=lora"},
		{"lora_rank=0", "lora_rank: found 0, expected 1 to 65536; type lora_rank=32"},
		{"lora_targets=", "lora_targets: found none; leave it out to adapt all seven, or type lora_targets=q_proj,v_proj"},
		{"lora_targets=lm_head", `lora_targets: found "lm_head", expected q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj or down_proj`},
		{"min_prompt_chars=9 max_prompt_chars=8", "min_prompt_chars: 9 is above max_prompt_chars, which is 8: no problem would be left"},
		{"min_problem_tests=9 max_problem_tests=8",
			"min_problem_tests: 9 is above max_problem_tests, which is 8: no problem would be left"},
		{"truncate_prompts=true", "truncate_prompts: where to cut is not said; type max_prompt_chars=4000"},
		{"reject_blocklisted=true", "reject_blocklisted: there is no list; type blocklist=FILE"},
		{"expected_dataset_hash=abc",
			`expected_dataset_hash: found "abc", expected the 64 hexadecimal digits that 'grpo data fingerprint' prints`},
		{"difficulty_keep=0", "difficulty_keep: found 0, expected 0.01 to 1; type difficulty_keep=0.25"},
		{"max_tokens=0", "max_tokens: found 0, expected 1 or more; type max_tokens=24576"},
		{"max_prompt_chars=-1", "max_prompt_chars: found -1, expected 0 or more; type max_prompt_chars=0"},
		{"cache_memory=-1GiB", "cache_memory: found -1073741824, expected 0 or more; type cache_memory=0"},
		{"temperature=0", "temperature: found 0, expected a number above 0; type temperature=1"},
		{"temperature=NaN", "temperature: found NaN, expected a number above 0; type temperature=1"},
		{"learning_rate=+Inf", "learning_rate: found +Inf, expected 0 or more; type learning_rate=4e-5"},
		{"adam_beta2=1", "adam_beta2: found 1, expected at least 0 and less than 1; type adam_beta2=0.95"},
		{"adam_eps=0", "adam_eps: found 0, expected a small number above 0; type adam_eps=1e-12"},
		{"clip_high=1.2", "clip_high: loss=importance_sampling clips nothing; leave it out, or type loss=ppo"},
		{"loss=ppo clip_high=0.2",
			"clip_high: found 0.2, expected at least 1, the ratio of an unchanged policy; it bounds the ratio itself, as in clip_high=1.2"},
		{"refill=true max_refills=0", "max_refills: refill=true allows no round; type max_refills=4, or refill=false"},
		{"max_refills=2", "max_refills: there are none without refill=true"},
		{"schedule=cosine", "schedule: cosine needs to know how many steps it falls over; type scheduler_total_steps=100"},
		{"schedule=linear max_steps=70", "schedule: linear needs to know how many steps it falls over; type scheduler_total_steps=70"},
		{"scheduler_total_steps=5",
			"scheduler_total_steps: schedule=constant never falls; type schedule=linear or cosine, or leave it out"},
		{"schedule=linear scheduler_total_steps=5 warmup_steps=5",
			"warmup_steps: found 5, expected less than scheduler_total_steps, which is 5"},
		{"schedule=linear scheduler_total_steps=5 max_steps=6",
			"max_steps: 6 steps go on after scheduler_total_steps, which is 5, where the learning rate is 0; type scheduler_total_steps=6"},
		{"reward=weights", "reward_weights: reward=weights needs them; type reward_weights=correct=1,format=0.1"},
		{"reward_weights=correct=1", "reward_weights: reward=correct does not use them; type reward=weights, or leave them out"},
		{"reward=custom",
			"reward_file: reward=custom needs one; type reward_file=FILE, a Python file with compute_reward(completion, ground_truth)"},
		{"reward_file=r.py",
			"reward_file: reward=correct does not use it; " +
				"type reward=custom, or a mix such as reward=weights reward_weights=correct=1,custom=0.5"},
		{"reward=custom reward_file=r.py format_coef=0.1",
			"format_coef: it is part of reward=correct and fraction; " +
				"leave it out, or type reward=weights with format=0.1 among reward_weights"},
		{"reward_timeout=0", "reward_timeout: found 0, expected seconds, 0.001 to 3600; type reward_timeout=6"},
		{"tolerance=1e-3", "tolerance: comparator=exact has none; type comparator=tolerant"},
		{"comparator=tolerant tolerance=0", "tolerance: comparator=tolerant needs one; type tolerance=1e-6"},
		{"sandbox=local sandbox_url=http://x", "sandbox_url: sandbox=local runs programs here; type sandbox=fusion, or leave it out"},
		{"sandbox=fusion deterministic=true",
			"deterministic: with sandbox=fusion the verdicts are another machine's; type sandbox=local or deterministic=false"},
		{"python=", "python: found nothing; type python=python3"},
		{"pipeline=fast", `pipeline: found "fast", expected off, score or full`},
		{"on_truncated=drop", `on_truncated: found "drop", expected grade, mask or penalise`},
		{"save_every=0", "save_every: found 0, expected 1 or more; type save_every=-1 to save at the end only"},
		{"max_steps=-2", "max_steps: found -2, expected 1 or more; type max_steps=-1 to run until stopped"},
		{"eval_k=8", "eval_k: found 8, expected at most eval_samples, which is 4"},
		{"eval_k=0", "eval_k: found 0, expected 1 to eval_samples, which is 4"},
		{"eval_top_p=0", "eval_top_p: found 0, expected above 0 and up to 1; type eval_top_p=1"},
		{"eval_every=-1 keep_best=2", "keep_best: without evaluation no checkpoint is the best; type keep_best=0 or eval_every=10"},
		{"resume=", "resume: found nothing; type resume=auto, resume=never or resume=DIR"},
		{"data=\xff test_data=x", "data: found bytes that are not UTF-8"},
	} {
		_, err := Load(Source{Overrides: strings.Fields(c.words)})
		require.EqualError(t, err, strings.ReplaceAll(c.message, "|", "\n"), c.words)
		require.True(t, badinput.Is(err), c.words)
	}
}

// Settings that hang on another follow it, unless they are named.
func TestFollow(t *testing.T) {
	load := func(words string) *Config {
		c, err := Load(Source{Overrides: strings.Fields(words)})
		require.NoError(t, err, words)
		return c
	}
	full := load("train=full")
	require.Equal(t, []any{0, 0.0, []string{}}, []any{full.LoRARank, full.LoRAAlpha, full.LoRATargets})
	require.Equal(t, []float64{0.8, 1.2}, []float64{load("loss=ppo").ClipLow, load("loss=ppo").ClipHigh})
	require.Equal(t, []float64{0, 5}, []float64{load("loss=cispo clip_high=5").ClipLow, load("loss=cispo clip_high=5").ClipHigh})
	require.Equal(t, 4, load("refill=true").MaxRefills)
	require.Equal(t, 9, load("refill=true max_refills=9").MaxRefills)
	require.Equal(t, 0.2, load("reward=fraction format_coef=0.2").FormatCoef)
	require.Equal(t, "correct=1", load("reward=weights reward_weights=correct=1").RewardWeights)
	require.Equal(t, 1e-6, load("comparator=tolerant").Tolerance)
	require.Equal(t, 0, load("eval_every=-1").KeepBest)
	require.Equal(t, "t.jsonl", load("data=x.jsonl test_data=t.jsonl").TestData)
	require.Equal(t, 32, load("train=lora").LoRARank)

	write(t,
		"version: 1\nextends: defaults\ntrain: full\nschedule: linear\nscheduler_total_steps: 9\nrefill: true\nsandbox: fusion\n"+
			"sandbox_url: http://x\nreward: custom\nreward_file: r.py\n")
	c, err := Load(Source{File: "c.yaml",
		Overrides: strings.Fields("train=lora schedule=constant refill=false sandbox=local reward=correct")})
	require.NoError(t, err)
	d := Defaults()
	d.Sandbox = "local"
	require.Equal(t, &d, c)
}

func TestWeights(t *testing.T) {
	for words, want := range map[string]string{
		"":                               "correct=1,format=0.1",
		"reward=fraction format_coef=0":  "fraction=1,format=0",
		"reward=custom reward_file=r.py": "custom=1",
		"reward=weights reward_weights=fraction=2": "fraction=2",
	} {
		c, err := Load(Source{Overrides: strings.Fields(words)})
		require.NoError(t, err)
		require.Equal(t, want, c.Weights())
	}
}

func TestBytes(t *testing.T) {
	for text, want := range map[string]Bytes{"0": 0, "1000": 1000, "8GiB": 8 << 30, "1.5 KiB": 1536, "2TiB": 2 << 40} {
		var b, again Bytes
		require.NoError(t, b.UnmarshalText([]byte(text)))
		require.Equal(t, want, b, text)
		require.NoError(t, again.UnmarshalText([]byte(b.String())))
		require.Equal(t, b, again)
	}
	for _, text := range []string{"", "GiB", "8GB", "1.0001KiB", "1e99", "NaN", "99999999TiB", "x"} {
		var b Bytes
		require.Error(t, b.UnmarshalText([]byte(text)), text)
	}
}

// Whatever a file holds, it is read or refused as bad input; what is read survives being written.
func FuzzFile(f *testing.F) {
	d := Defaults()
	f.Add(string(d.Marshal()))
	for _, s := range []string{
		"version: 1\nextends: tiny\n", "version: 1\nextends: tiny\nstop: [\"\\u2028\", 'a''b', >\n  x\n]\n",
		"{version: 1, extends: tiny, seed: 7}",
		"version: 1\nextends: tiny\nrun_dir: |\n  a\n   b\n\n", "? a\n: b\n", "&a [*a]", "!!str x: y", "%YAML 1.2\n---\n",
		"version: 1\nextends: tiny\nbatch_size: 64\ngroup_size: 4\ntrain: full\n", "<<: {a: b}", "\ufeffversion: 1\r\nextends: tiny\r\n",
	} {
		f.Add(s)
	}
	path := filepath.Join(f.TempDir(), "c.yaml")
	load := func(t *testing.T, text []byte) (*Config, error) {
		require.NoError(t, os.WriteFile(path, text, 0o600))
		return Load(Source{File: path})
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 16<<10 {
			t.Skip("long")
		}
		c, err := load(t, []byte(text))
		if err != nil {
			require.True(t, badinput.Is(err), "%v", err)
			return
		}
		again, err := load(t, c.Marshal())
		require.NoError(t, err, "%s", c.Marshal())
		require.Equal(t, c, again)
	})
}

// Any text that a word can carry survives being written.
func FuzzText(f *testing.F) {
	for _, s := range []string{"", "a", " a ", "null", "~", "a: b", "- x", "'", `"\`, "\x00", "\u0085\u2028\ufeff", "é", "0x1", "\r\n",
		"<>&"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := Load(Source{Overrides: []string{"run_dir=" + s}})
		if err != nil {
			require.True(t, badinput.Is(err))
			return
		}
		c.Stop = append(c.Stop, "x"+s)
		parsed, err := parseLayer("c.yaml", c.Marshal())
		require.NoError(t, err)
		l := loader{config: Defaults(), where: map[string]string{}}
		require.NoError(t, l.apply(parsed))
		require.Equal(t, c, &l.config)
	})
}
