package configs

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// A bar stands for the end of a line.
var mistakes = []struct{ words, message string }{
	{"model", `"model": expected key=value`},
	{"seed=1 seed=1", "seed: it is there twice; keep one"},
	{"extends=tiny", "extends: extends is for a file; on the command line type --preset NAME"},
	{"quiet=true", "quiet: it is a flag; type --quiet"},
	{"top_p=0.9",
		"top_p: training samples from the whole distribution, " +
			"because truncated sampling has other probabilities than the model and would bias the importance ratio; " +
			"leave it out, or use it for evaluation, with eval_top_p"},
	{"stop=[a", `stop: found "[a", expected a list, as in a,b or ["a", "b"]`},
	{"stop=a,a", "stop: a is there twice; keep one"},
	{"stop=a,", "stop: found an empty text in the list; leave it out"},
	{"version=2", "version: found 2, expected 1, the format that this program reads"},
	{"model=", "model: found nothing; type model=DIR, model=owner/name or model=tiny"},
	{"data=", "data: found nothing; type data=FILE, data=owner/name or data=tiny"},
	{"prompts_per_step=1025 completions_per_prompt=1024", "prompts_per_step × completions_per_prompt: found 1025 × 1024, which make " +
		"1049600, expected at most 1048576 completions of a step; type a smaller completions_per_prompt"},
	{"eval_samples=1048577", "eval_samples: found 1048577, expected at most 1048576; type eval_samples=4"},
	{"data=x.jsonl eval_every=5", "eval_every: there is no test_data to evaluate on; type test_data=FILE, or eval_every=-1"},
	{"test_data=", "eval_every: there is no test_data to evaluate on; type test_data=FILE, or eval_every=-1"},
	{"test_split=train",
		"test_data: these are the training problems; type test_split=test, or test_data= and eval_every=-1"},
	{"data_split=test",
		"test_data: these are the training problems; type data_split=train, or test_data= and eval_every=-1"},
	{"init_from=a adapter=b", "adapter: init_from=a brings its own; leave one of them out"},
	{"init_from=a resume=b", "init_from: resume=b names another checkpoint to start from; leave one of them out"},
	{"allow_change=learning_rate", `allow_change: found "learning_rate", expected model, adapter, quantize, data, data_split, data_sources, ` +
		`test_data, test_split, answer_match, prompt_template, renderer, chat_date, chat_vars, blocklist, reject_blocklisted, ` +
		`precision, kv_cache_dtype, adapter_precision, order, ` +
		`advantage, advantage_clip, positive_only, loss, clip_low, clip_high, clip_dual, tis, tis_cap, kl_coef, kl_estimator, kl_in, env, ` +
		`max_turns, max_conversation_tokens, turn_reward, turn_discount, public_tests, heal_template, ` +
		`tools, mcp, openenv_action, openenv_template, ` +
		`entropy_coef, reduction, method, rows_per_step, row_tokens, learn_turns, held_out, dpo_beta, dpo_loss, label_smoothing, ` +
		`reward, reward_weights, format_coef, reward_clip, overlong_penalty, overlong_buffer, ` +
		`reward_file, judge_model, judge_prompt, judge_score, seed or device`},
	{"env=chat", `env: found "chat", expected none, heal, tools, program:FILE, openenv:URL or own; type env=heal`},
	{"env=program:", `env: found "program:", expected none, heal, tools, program:FILE, openenv:URL or own; type env=heal`},
	{"heal_template=x", "heal_template: env=none has no second turn; type env=heal, or leave it out"},
	{"env=tools heal_template=x", "heal_template: env=tools does not use it; type env=heal, or leave it out"},
	{"env=heal max_tokens=100 max_conversation_tokens=99", "max_conversation_tokens: found 99, less than one turn of max_tokens, " +
		"which is 100; type max_conversation_tokens=0 for max_turns of them"},
	{"env=heal overlong_penalty=1", "overlong_penalty is for completions of one turn, and env=heal has several; type overlong_penalty=0"},
	{"env=tools sandbox=fusion", "env: tools run in cells of this machine, and sandbox=fusion has none; type sandbox=local"},
	{"method=sft data=x epochs=9000000000000000000",
		"epochs: found 9000000000000000000, expected at most 2147483647; type epochs=1"},
	{"sandbox_slots=200000000000", "sandbox_slots: found 200000000000, expected at most 2147483647; type sandbox_slots=0"},
	{"max_turns=0", "max_turns: found 0, expected 1 or more; type max_turns=2"},
	{"turn_discount=2", "turn_discount: found 2, expected 0 to 1; type turn_discount=0.5"},
	{"train=both", `train: found "both", expected lora or full`},
	{"train=full quantize=nf4",
		"quantize: nf4 is for frozen weights, and with train=full they are trained; type quantize=none, or train=lora"},
	{"quantize=int8", `quantize: found "int8", expected none or nf4`},
	{"train=full lora_rank=8", "lora_rank: train=full has no adapter; leave it out, or type train=lora"},
	{"order=pairs", "order: serial adds bf16 products in pairs, to the same bits; type order=serial, or on a card leave it out"},
	{"train=full precision=int16",
		"precision: int16 is for frozen weights of four bits, and with train=full they are trained; type precision=bf16 or precision=f32"},
	{"train=full adapter=a", "adapter: train=full has no adapter; leave it out, or type train=lora"},
	{"lora_rank=0", "lora_rank: found 0, expected 1 to 65536; type lora_rank=32"},
	{"lora_targets=", "lora_targets: found none; leave it out to adapt all seven, or type lora_targets=q_proj,v_proj"},
	{"lora_targets=lm_head", `lora_targets: found "lm_head", expected q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj or down_proj`},
	{"min_prompt_chars=9 max_prompt_chars=8", "min_prompt_chars: 9 is above max_prompt_chars, which is 8: no problem would be left"},
	{"min_problem_tests=9 max_problem_tests=8",
		"min_problem_tests: 9 is above max_problem_tests, which is 8: no problem would be left"},
	{"truncate_prompts=true", "truncate_prompts needs a length; type max_prompt_chars=4000"},
	{"reject_blocklisted=true", "reject_blocklisted needs a list; type blocklist=FILE"},
	{"expected_dataset_hash=abc",
		`expected_dataset_hash: found "abc", expected the 64 hexadecimal digits that 'grpo data fingerprint' prints`},
	{"difficulty_keep=0", "difficulty_keep: found 0, expected 0.01 to 1; type difficulty_keep=0.25"},
	{"max_tokens=0", "max_tokens: found 0, expected 1 or more; type max_tokens=24576"},
	{"max_prompt_chars=-1", "max_prompt_chars: found -1, expected 0 or more; type max_prompt_chars=0"},
	{"cache_memory=-1GiB", "cache_memory: found -1073741824, expected 0 or more; type cache_memory=0"},
	{"temperature=0", "temperature: found 0, expected a number of at least 1e-06; type temperature=1"},
	{"temperature=NaN", "temperature: found NaN, expected a number of at least 1e-06; type temperature=1"},
	{"learning_rate=+Inf", "learning_rate: found +Inf, expected 0 or more and at most 3.4e38; type learning_rate=4e-5"},
	{"learning_rate=1e300", "learning_rate: found 1e+300, expected 0 or more and at most 3.4e38; type learning_rate=4e-5"},
	{"learning_rate=NaN", "learning_rate: found NaN, expected 0 or more; type learning_rate=4e-5"},
	{"weight_decay=1e39", "weight_decay: found 1e+39, expected 0 (off) or more and at most 3.4e38; type weight_decay=0"},
	{"format_coef=1e300", "format_coef: found 1e+300, expected 0 or more and at most 3.4e38; type format_coef=0.1"},
	{"eval_temperature=1e39", "eval_temperature: found 1e+39, expected a number of at least 1e-06 and at most 3.4e38; " +
		"the greedy completion needs no setting; type eval_temperature=1"},
	{"lora_alpha=1e300", "lora_alpha: found 1e+300, expected a number above 0 and at most 3.4e38; type lora_alpha=32"},
	{"lora_alpha=1e-300", "lora_alpha: found 1e-300, expected at least 3.2e-11 with lora_rank=32: " +
		"the policy would never move; type lora_alpha=32"},
	{"lora_alpha=1e30 lora_rank=4", "lora_alpha: found 1e+30, expected at most 4e+12 with lora_rank=4: " +
		"one step would destroy the model; type lora_alpha=32"},
	{"lora_alpha=1e-20 lora_rank=4", "lora_alpha: found 1e-20, expected at least 4e-12 with lora_rank=4: " +
		"the policy would never move; type lora_alpha=32"},
	{"adam_beta2=1", "adam_beta2: found 1, expected at least 0 and less than 1; type adam_beta2=0.95"},
	{"adam_eps=0", "adam_eps: found 0, expected a small number above 0; type adam_eps=1e-12"},
	{"clip_high=1.2", "clip_high: loss=importance_sampling clips nothing; leave it out, or type loss=ppo"},
	{"loss=ppo clip_high=0.2",
		"clip_high: found 0.2, expected at least 1, the ratio of an unchanged policy; it bounds the ratio itself, as in clip_high=1.2"},
	{"refill=true max_refills=0", "max_refills: refill=true needs at least one round; type max_refills=4, or refill=false"},
	{"max_refills=2", "max_refills: there are none without refill=true"},
	{"refill=true advantage=batch", "refill: with advantage=batch every group gives a gradient; type refill=false"},
	{"refill=true kl_coef=0.1 kl_in=reward", "refill: with kl_in=reward every group gives a gradient; type refill=false"},
	{"refill=true advantage=batch_baseline kl_coef=0.1 kl_in=reward",
		"refill: with advantage=batch_baseline every group gives a gradient; type refill=false"},
	{"loss=gspo clip_low=1.1", "clip_low: found 1.1, expected at most 1, the ratio of an unchanged policy"},
	{"loss=ppo clip_dual=1.1", "clip_dual: found 1.1, expected a ratio above clip_high, which is 1.2; type clip_dual=3, or clip_dual=0"},
	{"loss=gspo clip_dual=3", "clip_dual is for loss=ppo; leave it out, or type loss=ppo"},
	{"tis_cap=2", "tis_cap: tis=none corrects nothing; leave it out, or type tis=token"},
	{"tis=sequence tis_cap=0", "tis_cap: tis=sequence needs one; type tis_cap=2"},
	{"kl_in=reward", "kl_in: kl_coef=0 has no KL penalty; leave it out, or type kl_coef=0.001"},
	{"kl_estimator=k2", "kl_estimator: kl_coef=0 has no KL penalty; leave it out, or type kl_coef=0.001"},
	{"kl_coef=-1", "kl_coef: found -1, expected 0 (off) or more; type kl_coef=0"},
	{"kl_coef=0.1 kl_estimator=k1", "kl_estimator: the gradient of k1 is 0 on average, so as part of the loss it is noise; " +
		"type kl_estimator=k3, or kl_in=reward"},
	{"kl_coef=0.1 train=full",
		"kl_coef: the reference is the model without its adapter, and train=full has none; type kl_coef=0, or train=lora"},
	{"beta=0.1", "beta: it is kl_coef here; type kl_coef=0.1"},
	{"overlong_buffer=5", "overlong_buffer: overlong_penalty=0 has no penalty; leave it out, or type overlong_penalty=1"},
	{"overlong_penalty=1 max_tokens=50 overlong_buffer=51",
		"overlong_buffer: found 51, expected 1 to max_tokens, which is 50; type overlong_buffer=10"},
	{"overlong_penalty=1 on_truncated=mask", "overlong_penalty: on_truncated=mask leaves out the penalised completions; " +
		"type on_truncated=grade, or overlong_penalty=0"},
	{"schedule=cosine", "schedule: cosine needs the number of steps over which it decays; type scheduler_total_steps=100"},
	{"schedule=linear max_steps=70", "schedule: linear needs the number of steps over which it decays; type scheduler_total_steps=70"},
	{"scheduler_total_steps=5",
		"scheduler_total_steps: schedule=constant does not decay; type schedule=linear or cosine, or leave it out"},
	{"schedule=linear scheduler_total_steps=5 warmup_steps=5",
		"warmup_steps: found 5, expected less than scheduler_total_steps, which is 5"},
	{"schedule=linear scheduler_total_steps=5 max_steps=6",
		"max_steps: found 6, but the learning rate is 0 after scheduler_total_steps, which is 5; type scheduler_total_steps=6"},
	{"reward=weights", "reward_weights: reward=weights needs them; type reward_weights=correct=1,format=0.1"},
	{"reward_weights=correct=1", "reward_weights: reward=correct does not use them; type reward=weights, or leave them out"},
	{"reward=custom",
		"reward_file: reward=custom needs one; type reward_file=FILE, a Python file with compute_reward(completion, ground_truth)"},
	{"reward_file=r.py",
		"reward_file: reward=correct does not use it; " +
			"type reward=custom, or a mix such as reward=weights reward_weights=correct=1,custom=0.5"},
	{"reward=custom reward_file=r.py format_coef=0.1",
		"format_coef is for reward=correct and fraction; " +
			"leave it out, or type reward=weights with format=0.1 among reward_weights"},
	{"reward_python=py", "reward_python runs a reward file; type reward_file=FILE, or leave it out"},
	{"mcp=s.json", "mcp: env=none calls no tools; type env=tools, or leave it out"},
	{"conversation_seconds=3", "conversation_seconds: env=none has no conversations; type conversation_seconds=0"},
	{"env=heal conversation_seconds=3 deterministic=true",
		"deterministic: conversation_seconds makes results depend on the clock; type deterministic=false or conversation_seconds=0"},
	{"env=tools tools=[]", "tools: found none, and no mcp=FILE names others; type tools=python"},
	{"env=heal openenv_action=code", "openenv_action: env=heal does not use it; type env=openenv:URL, or leave it out"},
	{"judge_model=m", "judge_model: there is no judge; type judge_url=http://host:8000/v1, or leave it out"},
	{"judge_url=http://x judge_model=m", "judge_url: reward=correct does not use it; " +
		"type reward=weights reward_weights=judge=1, or a mix such as correct=1,judge=0.5"},
	{"reward=weights reward_weights=judge=1 judge_url=http://x",
		"judge_model: found nothing; type judge_model=NAME, as the endpoint knows it"},
	{"judge_url=http://x judge_model=m judge_timeout=-1 reward=weights reward_weights=judge=1",
		"judge_timeout: found -1, expected seconds, up to 3600; 0 is 60; type judge_timeout=0"},
	{"reward_timeout=0", "reward_timeout: found 0, expected seconds, 0.001 to 3600; type reward_timeout=6"},
	{"grad_clip_norm=1e-60 learning_rate=1e-13 advantage_clip=1e-60 reward_clip=1e-60",
		"learning_rate: found 1e-13, expected 0 (nothing is learned) or at least 1e-12: the policy would never move; type learning_rate=4e-5|" +
			"grad_clip_norm: found 1e-60, expected 0 (off) or at least 1e-12: the policy would never move; type grad_clip_norm=0|" +
			"advantage_clip: found 1e-60, expected 0 (off) or at least 1e-12: the policy would never move; type advantage_clip=0|" +
			"reward_clip: found 1e-60, expected 0 (off) or at least 1e-12: the policy would never move; type reward_clip=0"},
	{"adam_eps=1e30 learning_rate=1e-4",
		"adam_eps: found 1e+30, expected at most 1e8 with learning_rate=1e-4: the policy would never move; type adam_eps=1e-12"},
	{"tolerance=1e-3", "tolerance: comparator=exact has none; type comparator=tolerant"},
	{"comparator=tolerant tolerance=0", "tolerance: comparator=tolerant needs one; type tolerance=1e-6"},
	{"sandbox=local sandbox_url=http://x", "sandbox_url: sandbox=local runs programs here; type sandbox=fusion, or leave it out"},
	{"sandbox=fusion deterministic=true",
		"deterministic: with sandbox=fusion the verdicts come from another machine; type sandbox=local or deterministic=false"},
	{"python=", "python: found nothing; type python=python3"},
	{"pipeline=fast", `pipeline: found "fast", expected off, score or full`},
	{"on_truncated=drop", `on_truncated: found "drop", expected grade, mask or penalise`},
	{"save_every=0", "save_every: found 0, expected 1 or more; type save_every=-1 to save at the end only"},
	{"max_steps=-2", "max_steps: found -2, expected 1 or more; type max_steps=-1 to run until stopped"},
	{"eval_k=8", "eval_k: found 8, expected at most eval_samples, which is 4; type eval_k=4, or eval_samples=8"},
	{"eval_k=0", "eval_k: found 0, expected 1 to eval_samples, which is 4; type eval_k=4, or eval_samples=0"},
	{"eval_top_p=0", "eval_top_p: found 0, expected above 0 and up to 1; type eval_top_p=1"},
	{"record_rollouts=0",
		`record_rollouts: found "0", expected all, none or a number of steps, 1 or more; type record_rollouts=all`},
	{"record_rollouts=some compress_rollouts=true",
		`record_rollouts: found "some", expected all, none or a number of steps, 1 or more; type record_rollouts=all`},
	{"serve_keys=keys", "serve_keys needs serve; type serve=127.0.0.1:8000, or leave it out"},
	{"train=full serve=127.0.0.1:8000", "serve: train=full changes the weights that would be served; leave it out, " +
		"and type grpo serve --run DIR beside the run"},
	{"record_rollouts=none compress_rollouts=true",
		"compress_rollouts: record_rollouts=none keeps nothing to compress; leave one of them out"},
	{"eval_every=-1 keep_best=2", "keep_best needs evaluations; type keep_best=0 or eval_every=10"},
	{"eval_every=-1 keep_best=2 test_data=", "keep_best needs evaluations; type keep_best=0"},
	{"resume=", "resume: found nothing; type resume=auto, resume=never or resume=DIR"},
	{"data=\xff test_data=x", "data: found bytes that are not UTF-8"},
}

// Each contradiction and each value out of range gives one line with what to type.
func TestMistakes(t *testing.T) {
	for _, c := range mistakes {
		_, err := Load(Source{Overrides: strings.Fields(c.words)})
		require.EqualError(t, err, strings.ReplaceAll(c.message, "|", "\n"), c.words)
		require.True(t, badinput.Is(err), c.words)
	}
}

// The recommended value is that of the base: a preset, or the settings of a run.
func TestMistakesNameTheValueOfThePreset(t *testing.T) {
	for words, message := range map[string]string{
		"learning_rate=-1":        "learning_rate: found -1, expected 0 or more; type learning_rate=0.0015",
		"max_tokens=0":            "max_tokens: found 0, expected 1 or more; type max_tokens=96",
		"lora_rank=0":             "lora_rank: found 0, expected 1 to 65536; type lora_rank=16",
		"reward_timeout=0":        "reward_timeout: found 0, expected seconds, 0.001 to 3600; type reward_timeout=2",
		"prompts_per_step=0":      "prompts_per_step: found 0, expected 1 to 1048576; type prompts_per_step=4",
		"completions_per_prompt=": `completions_per_prompt: found "", expected a whole number`,
		"batch_size=-3":           "batch_size: found -3, expected 1 to 1048576; type batch_size=64",
	} {
		_, err := Load(Source{Preset: "tiny", Overrides: []string{words}})
		require.EqualError(t, err, message)
	}
	base, err := Load(Source{Preset: "tiny", Overrides: []string{"learning_rate=2e-4"}})
	require.NoError(t, err)
	_, err = Load(Source{Base: base, Overrides: []string{"learning_rate=-1"}})
	require.EqualError(t, err, "learning_rate: found -1, expected 0 or more; type learning_rate=2e-4")
	base.LearningRate = -1 // the base's own value
	require.EqualError(t, base.Validate(), "learning_rate: found -1, expected 0 or more; type learning_rate=4e-5")
}

// A huge number of threads is a mistake, and refused before a machine tries to start them.
func TestTooManyThreads(t *testing.T) {
	_, err := Load(Source{Overrides: []string{"threads=999999"}})
	require.EqualError(t, err, fmt.Sprintf("threads: found 999999, expected at most %d; type threads=%d, one a core",
		MostThreads(), runtime.NumCPU()))
	_, err = Load(Source{Overrides: []string{"threads=1024"}})
	require.NoError(t, err)
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
