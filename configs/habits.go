package configs

import (
	"cmp"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/settings"
)

// Habit is what to type instead of a setting of other trainers, or of one that is a flag here; "" if it is unknown. It
// repeats the typed value if that means the same here.
func Habit(name, typed string) string {
	last := name[strings.LastIndex(name, ".")+1:] // some are in sections, as in trainer.save_freq
	typed = cmp.Or(typed, "VALUE")
	for _, n := range []string{name, last} {
		n = strings.ReplaceAll(strings.ToLower(n), "-", "_")
		if here, ok := synonyms[n]; ok {
			return "it is " + here + " here; type " + here + "=" + typed
		}
		if instead, ok := foreignKeys[n]; ok {
			return instead
		}
	}
	if key := Key(last); key != "" && last != name {
		return "settings have no sections here; type " + key + "=" + typed
	}
	return ""
}

// synonyms are names in TRL, Unsloth, transformers, verl, OpenRLHF and NeMo-RL for settings of this program. Values mean
// the same under both names.
var synonyms = named(map[string]string{
	"completions_per_prompt": "num_generations n_samples_per_prompt num_generations_per_prompt num_samples_per_prompt rollout_n n " +
		"group completions generations samples num_completions num_samples num_return_sequences",
	"prompts_per_step": "num_prompts_per_step num_prompts prompts rollout_batch_size",
	"max_tokens": "max_completion_length max_new_tokens max_response_length generate_max_len max_completion_tokens " +
		"response_length max_gen_toks",
	"max_steps":       "steps num_steps max_num_steps total_training_steps total_steps train_steps num_train_steps",
	"num_iterations":  "mu ppo_epochs ppo_epoch num_ppo_epochs",
	"learning_rate":   "lr actor_learning_rate actor_lr",
	"adam_eps":        "adam_epsilon",
	"adam_beta1":      "beta1",
	"adam_beta2":      "beta2",
	"grad_clip_norm":  "max_grad_norm grad_clip clip_grad max_norm grad_norm",
	"warmup_steps":    "lr_warmup_steps num_warmup_steps",
	"kl_coef":         "beta kl_loss_coef init_kl_coef reference_policy_kl_penalty kl_beta kl_penalty_coef",
	"entropy_coef":    "entropy_coeff entropy_loss_coef ent_coef entropy_bonus",
	"clip_dual":       "clip_ratio_c ratio_clip_c delta",
	"temperature":     "temp",
	"stop":            "stop_strings stop_sequences stop_words",
	"model":           "model_name_or_path model_name model_path model_id base_model pretrain pretrained",
	"data":            "dataset dataset_name dataset_path train_file train_files train_data prompt_data prompts_file",
	"test_data":       "eval_dataset eval_data test_file test_files val_file val_files val_data validation_data",
	"lora_rank":       "lora_r r rank max_lora_rank",
	"lora_alpha":      "alpha",
	"lora_targets":    "target_modules lora_target_modules targets",
	"run_dir":         "output_dir logging_dir save_path ckpt_path default_local_dir checkpoint_dir out_dir",
	"save_every":      "save_steps save_freq save_period save_interval",
	"eval_every":      "eval_steps test_freq val_period eval_interval eval_freq",
	"keep_best":       "keep_top_k",
	"keep_last":       "save_total_limit max_ckpt_num",
	"eval_samples":    "num_generations_eval eval_n_samples_per_prompt",
	"resume":          "resume_from_checkpoint resume_from_path load_checkpoint",
	"seed":            "random_state random_seed rng",
	"threads":         "num_threads workers num_workers",
	"overlong_buffer": "overlong_buffer_len soft_punish_cache",
})

// named inverts a table of other names by setting.
func named(others map[string]string) map[string]string {
	out := map[string]string{}
	for key, names := range others {
		for _, name := range strings.Fields(names) {
			out[name] = key
		}
	}
	return out
}

const (
	truncationAdvice = "training samples from the whole distribution, because truncated sampling has other probabilities than the model " +
		"and would bias the importance ratio; leave it out, or use it for evaluation, with "
	trainAdvice = "the setting train says what is trained; type "
)

// foreignKeys are other keys that users may try, by what to do instead.
var foreignKeys = named(map[string]string{
	"extends is for a file; on the command line type --preset NAME": "extends",
	"it is a flag; type --quiet":                                    "quiet",
	"it is a flag; type --json":                                     "json",
	"it is a flag; type --preset NAME":                              "preset",
	"a file of settings is a flag; type --config-file FILE":         "config config_file",
	truncationAdvice + "eval_top_k":                                 "top_k",
	truncationAdvice + "eval_top_p":                                 "top_p repetition_penalty",
	truncationAdvice + "eval_min_p":                                 "min_p",

	// Sizes.
	"a step is one batch: prompts_per_step × completions_per_prompt, divided into micro-batches as memory allows; " +
		"type prompts_per_step=8 completions_per_prompt=16": "batch train_batch_size per_device_train_batch_size global_batch_size " +
		"gradient_accumulation_steps micro_train_batch_size micro_batch_size mini_batch_size ppo_mini_batch_size steps_per_generation " +
		"ppo_micro_batch_size_per_gpu micro_rollout_batch_size train_global_batch_size train_micro_batch_size generation_batch_size",
	"an evaluation runs as much at a time as memory allows; leave it out, or type max_sequences=64": "per_device_eval_batch_size " +
		"eval_batch_size val_batch_size",
	"the prompt limit is in characters here; type max_prompt_chars=4000": "max_prompt_length prompt_max_len max_prompt_tokens",
	"the length limit excludes the prompt here; type max_tokens=1024": "max_seq_length max_seq_len max_length max_len " +
		"max_model_len max_total_sequence_length",
	"a run has a number of steps here, of prompts_per_step problems each; type max_steps=200, or for a warm-up epochs=1": "num_train_epochs " +
		"total_epochs num_epochs max_num_epochs num_episodes max_epochs",

	// Learning.
	"the clip range is for loss=ppo here, given as ratios; for 0.2 on both sides type loss=ppo clip_low=0.8 clip_high=1.2": "epsilon " +
		"epsilon_low epsilon_high clip_ratio clip_ratio_low clip_ratio_high eps_clip eps_clip_low_high cliprange clip_range clip_eps " +
		"ratio_clip_min ratio_clip_max",
	"it is counted in steps here; type warmup_steps=10": "warmup_ratio lr_warmup_ratio lr_warmup_steps_ratio",
	"the learning rate schedule is schedule here; type schedule=cosine scheduler_total_steps=200, or schedule=constant": "" +
		"lr_scheduler_type lr_scheduler scheduler",
	"the optimizer is always Adam; leave it out, or type adam_beta1=0.9":        "optim optimizer",
	"methods of papers are presets here; type --preset tiny,dapo, or loss=NAME": "loss_type",
	"the computation of advantages is advantage here; type advantage=std, or advantage=mean not to divide": "scale_rewards " +
		"adv_estimator advantage_estimator norm_adv_by_std_in_grpo normalize_rewards",
	"sequence-level importance ratios are a loss here; type loss=gspo": "importance_sampling_level sequence_level_importance_ratios",
	"the reference is always the model without its adapter; leave it out, or type kl_coef=0.001": "ref_model sync_ref_model " +
		"reference_model use_kl_loss use_kl_in_reward",
	"it is refill here; type refill=true":             "dynamic_sampling dynamic_filtering use_dynamic_sampling filter_groups",
	"it is on_truncated here; type on_truncated=mask": "mask_truncated mask_truncated_completions overlong_filtering",
	"a reward of your own is a Python file here; type reward=custom reward_file=FILE": "reward_funcs reward_func reward_fn " +
		"reward_function custom_reward_function.path remote_rm_url reward_model",

	// Models.
	"the number format is precision here; type precision=bf16 or precision=f32": "bf16 fp16 dtype torch_dtype mixed_precision",
	"quantisation, to four bits, is quantize here; type quantize=nf4":           "load_in_4bit load_in_8bit quantization",
	trainAdvice + "train=lora":                                                             "use_peft use_lora peft",
	trainAdvice + "train=full":                                                             "full_finetuning full_finetune",
	"adapters have no dropout; leave it out":                                               "lora_dropout",
	"the prompt template is a file here; type prompt_template=FILE":                        "system_prompt prompt prompt_file",
	"the chat template is that of the model's files; leave it out, or type renderer=plain": "chat_template apply_chat_template",

	// Runs.
	"every step is logged; leave it out":                                            "logging_steps logging_strategy log_interval",
	"it is counted in steps here; type eval_every=10, or eval_every=-1 for never":   "eval_strategy evaluation_strategy",
	"it is counted in steps here; type save_every=10, or save_every=-1 for the end": "save_strategy",
	"type tensorboard=true or mlflow=DIR; for Weights & Biases put WANDB_PROJECT=NAME into the environment": "report_to logger use_wandb " +
		"wandb wandb_project use_tensorboard",
	"completions are recorded by default; leave it out, or type record_rollouts=none": "log_completions save_rollouts",
	"a finished run is uploaded with its own command; type grpo publish RUN":          "push_to_hub hub_model_id",

	// Machines.
	"sampling is built in, with the weights that are trained; leave it out": "use_vllm vllm_mode vllm_num_engines " +
		"fast_inference enforce_eager async_engine vllm_sync_backend rollout_backend",
	"the memory of the KV cache is in bytes here; leave it out, or type cache_memory=8GiB": "gpu_memory_utilization " +
		"vllm_gpu_memory_utilization",
	"a run uses one card, or the processor; leave it out, or type device=cuda:0": "gpu gpus num_gpus nnodes n_gpus_per_node " +
		"gpus_per_node num_nodes deepspeed fsdp zero_stage tensor_parallel_size tensor_model_parallel_size vllm_tensor_parallel_size",
	"the device is device here; type device=cpu": "use_cpu no_cuda cpu",
	"activation checkpointing is recompute here; type recompute=blocks, or none": "gradient_checkpointing " +
		"enable_gradient_checkpointing use_gradient_checkpointing activation_checkpointing",
	"the program packs sequences and chooses kernels by itself; leave it out": "packing packing_samples flash_attn attn_implementation " +
		"use_liger_kernel use_remove_padding remove_unused_columns",
})

// unknown is the error of an unknown key; it suggests the nearest known one.
func unknown(key string) error {
	known := slices.Concat([]string{"batch_size", "group_size"}, keys())
	if near := settings.Nearest(key, known); near != "" {
		return badinput.Errorf("this key is not known; did you mean %s?", near)
	}
	return badinput.Errorf("this key is not known; 'grpo --print-config' lists all")
}
